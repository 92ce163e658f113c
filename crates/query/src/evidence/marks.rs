//! What programs and servers said of themselves, and when time was lost: read only where there is something to compare.

use super::row::rows;
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{LostAt, Mark};
use gpuwhy_model::Cause;
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, HashMap};

/// The newest ones.
const MAX_MARKS: usize = 200_000;
/// Marks that began so long before may still last.
const MAX_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// The longest calls.
const MAX_CALLS: usize = 50_000;
const MAX_WINDOWS: usize = 300_000;

pub(super) fn marks(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = format!(
        "SELECT event, value, pid, uid, timestamp_ns, duration_ns, state FROM annotations \
         WHERE timestamp_ns >= ?1 - {MAX_NS} AND timestamp_ns < ?2 \
         AND (timestamp_ns >= ?1 OR state = 'open' OR timestamp_ns + duration_ns > ?1) \
         ORDER BY timestamp_ns DESC, event, value LIMIT {MAX_MARKS}"
    );
    let ends: HashMap<u32, u64> =
        evidence.processes.iter().filter_map(|process| Some((process.pid, process.end_ns?))).collect();
    for row in rows(reader, &sql, times)? {
        let pid = row.maybe(2).map(|pid| pid as u32);
        let start_ns = row.number(4);
        let end_ns = match row.maybe(5) {
            Some(duration_ns) => start_ns.saturating_add(duration_ns),
            // Until its process ended, or until now.
            None if row.text(6) == "open" => {
                pid.and_then(|pid| ends.get(&pid).copied()).unwrap_or(evidence.span.end_ns).max(start_ns + 1)
            }
            None => start_ns,
        };
        evidence.marks.push(Mark {
            event: row.text(0),
            value: row.text(1),
            pid,
            uid: row.number(3) as u32,
            start_ns,
            end_ns,
        });
    }
    Ok(())
}

pub(super) fn servers(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    evidence.servers = reader.server_samples(times[0], times[1])?;
    Ok(())
}

/// Calls that took longer than the median of their operation, and every half second's causes.
pub(super) fn losses(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    if evidence.marks.is_empty() && evidence.servers.is_empty() {
        return Ok(());
    }
    let medians: HashMap<(u32, String), u64> =
        evidence.sums.iter().map(|sums| ((sums.pid, sums.op.clone()), sums.quantile_ns(0.5))).collect();
    // Samples stand for others, whose times nobody knows.
    let sql = format!(
        "SELECT c.pid, o.op, c.timestamp_ns, c.duration_ns FROM calls c JOIN ops o ON o.op_id = c.op_id \
         WHERE c.timestamp_ns >= ?1 AND c.timestamp_ns < ?2 AND c.kept <> 3 \
         ORDER BY c.duration_ns DESC, c.timestamp_ns, c.tid LIMIT {MAX_CALLS}"
    );
    for row in rows(reader, &sql, times)? {
        let (pid, op, start_ns, duration_ns) = (row.id(0), row.text(1), row.number(2), row.number(3));
        let usual = medians.get(&(pid, op.clone())).copied().unwrap_or(0);
        let ns = duration_ns.saturating_sub(usual);
        if ns > 0 {
            let end_ns = start_ns.saturating_add(duration_ns);
            evidence.losses.push(LostAt { pid, op: Some(op), cause: None, start_ns, end_ns, ns });
        }
    }
    let causes: BTreeMap<&str, Cause> = Cause::ALL.iter().map(|cause| (cause.name(), *cause)).collect();
    let sql = format!(
        "SELECT pid, op, cause, window_start_ns, sum(ns) FROM blame WHERE window_start_ns >= ?1 AND window_start_ns < ?2 \
         GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT {MAX_WINDOWS}"
    );
    for row in rows(reader, &sql, times)? {
        let start_ns = row.number(3);
        evidence.losses.push(LostAt {
            pid: row.id(0),
            op: row.maybe_text(1),
            cause: Some(causes.get(row.text(2).as_str()).copied().unwrap_or(Cause::Unknown)),
            start_ns,
            end_ns: start_ns + WINDOW_NS,
            ns: row.number(4),
        });
    }
    Ok(())
}

/// Rows of `blame` are of half a second.
const WINDOW_NS: u64 = 500_000_000;
