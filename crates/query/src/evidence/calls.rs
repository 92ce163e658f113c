//! Calls: exact sums of all, whom their time is billed to, and what starting took.

use super::row::{Row, rows};
use super::scope::Scope;
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{Billed, ColdCall, ForeignOp, OpSums, Pace};
use gpuwhy_model::{Blame, Cause, Family, Reason};
use gpuwhy_store::{CallStats, Filter, Reader};
use std::collections::{BTreeMap, HashMap};

pub(super) fn sums(
    reader: &Reader,
    filter: &Filter,
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let mut sums: BTreeMap<(u32, String), OpSums> = BTreeMap::new();
    let mut paces: BTreeMap<(u64, u32), Pace> = BTreeMap::new();
    let busy = BusyTimes::read(reader, filter)?;
    let ops = std::mem::take(&mut evidence.ops);
    let does_work = |op: &str| {
        ops.get(op).is_some_and(|op| matches!(op.family, Family::Launch | Family::Copy | Family::Graph))
    };
    reader.each_call_stats(filter, |stats| {
        if !scope.has(stats.pid, stats.window_start_ns) {
            return;
        }
        if does_work(&stats.op) {
            let pace = paces.entry((stats.window_start_ns, stats.pid)).or_insert(Pace {
                window_start_ns: stats.window_start_ns,
                window_ns: stats.window_ns,
                pid: stats.pid,
                calls: 0,
                longest_ns: 0,
            });
            pace.calls += stats.count;
            pace.longest_ns = pace.longest_ns.max(stats.max_ns);
        }
        let is_busy = busy.covers(stats.window_start_ns, stats.window_ns);
        add(sums.entry((stats.pid, stats.op.clone())).or_default(), stats, is_busy);
    })?;
    evidence.ops = ops;
    evidence.sums = sums.into_values().collect();
    evidence.paces = paces.into_values().collect();
    Ok(())
}

/// When a GPU's own counter says that it was busy, from its samples.
struct BusyTimes(Vec<u64>);

impl BusyTimes {
    fn read(reader: &Reader, filter: &Filter) -> Result<BusyTimes, QueryError> {
        const BUSY_PCT: u32 = 90;
        let sql = format!(
            "SELECT DISTINCT timestamp_ns FROM gpu_samples WHERE sm_pct >= {BUSY_PCT} AND timestamp_ns >= ?1 AND timestamp_ns < ?2 \
             ORDER BY 1 LIMIT 1000000"
        );
        let times = [filter.from_ns.unwrap_or(0), filter.to_ns.unwrap_or(u64::MAX)];
        Ok(BusyTimes(rows(reader, &sql, times)?.iter().map(|row| row.number(0)).collect()))
    }

    /// A sample tells of the second before it.
    fn covers(&self, start_ns: u64, length_ns: u64) -> bool {
        const SAMPLE_NS: u64 = 1_000_000_000;
        let next = self.0.partition_point(|time| *time <= start_ns);
        self.0.get(next).is_some_and(|time| *time <= start_ns + length_ns + SAMPLE_NS)
    }
}

fn add(sums: &mut OpSums, stats: CallStats, is_busy: bool) {
    if is_busy {
        sums.busy_count += stats.count;
        sums.busy_oncpu_ns += stats.blame.oncpu_ns;
    }
    if sums.count == 0 {
        sums.first_ns = stats.window_start_ns;
    }
    sums.first_ns = sums.first_ns.min(stats.window_start_ns);
    sums.last_ns = sums.last_ns.max(stats.window_start_ns + stats.window_ns);
    sums.count += stats.count;
    sums.errors += stats.errors;
    sums.bytes += stats.bytes;
    sums.sum_ns += stats.sum_ns;
    sums.max_ns = sums.max_ns.max(stats.max_ns);
    sums.hist.merge(&stats.hist);
    sums.blame.add(&stats.blame);
    sums.pid = stats.pid;
    sums.op = stats.op;
}

pub(super) fn bills(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let scope = scope.condition("pid", "window_start_ns");
    let sql = format!(
        "SELECT pid, tid, op, cause, by_pid, by_tid, by_comm, by_cgroup_id, sum(ns), sum(count), min(window_start_ns), \
               max(window_start_ns) FROM blame WHERE window_start_ns >= ?1 AND window_start_ns < ?2{scope} \
               GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"
    );
    let causes: HashMap<&str, Cause> = Cause::ALL.iter().map(|cause| (cause.name(), *cause)).collect();
    for row in rows(reader, &sql, times)? {
        evidence.bills.push(Billed {
            pid: row.id(0),
            tid: row.id(1),
            op: row.maybe_text(2),
            cause: causes.get(row.text(3).as_str()).copied().unwrap_or(Cause::Unknown),
            by_pid: row.id(4),
            by_tid: row.id(5),
            by_comm: row.text(6),
            by_cgroup_id: row.number(7),
            ns: row.number(8),
            count: row.number(9),
            first_ns: row.number(10),
            last_ns: row.number(11),
        });
    }
    Ok(())
}

/// The columns of a call's parts, as [`blame`] reads them.
pub(super) fn parts() -> String {
    let reasons = Reason::ALL.map(|reason| format!("c.{}", reason.column()));
    format!("c.oncpu_ns, c.runq_ns, {}", reasons.join(", "))
}

pub(super) fn blame(row: &Row<'_>, at: usize) -> Blame {
    let mut blame = Blame { oncpu_ns: row.number(at), runq_ns: row.number(at + 1), ..Blame::default() };
    for (place, ns) in blame.blocked_ns.iter_mut().enumerate() {
        *ns = row.number(at + 2 + place);
    }
    blame
}

pub(super) fn cold(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    // The call itself has the parts of its time; where it is not on file, all of it was the call's own.
    let sql = format!(
        "SELECT e.pid, e.op, e.event, e.name, e.duration_ns, e.stack_id, c.duration_ns, {} FROM coldstart_events e \
         LEFT JOIN calls c ON c.timestamp_ns = e.timestamp_ns AND c.pid = e.pid AND c.tid = e.tid \
         AND c.op_id = (SELECT op_id FROM ops WHERE op = e.op) \
         WHERE e.timestamp_ns >= ?1 AND e.timestamp_ns < ?2{} ORDER BY e.duration_ns DESC, e.timestamp_ns, e.tid LIMIT 20000",
        parts(),
        scope.condition("e.pid", "e.timestamp_ns")
    );
    for row in rows(reader, &sql, times)? {
        let duration_ns = row.number(4);
        let blame = match row.maybe(6) {
            Some(_) => blame(&row, 7),
            None => Blame { oncpu_ns: duration_ns, ..Blame::default() },
        };
        evidence.cold_calls.push(ColdCall {
            pid: row.id(0),
            op: row.text(1),
            event: row.text(2),
            name: row.text(3),
            duration_ns,
            blame,
            stack_id: row.signed(5),
        });
    }
    Ok(())
}

/// Calls as another tool has stored them: without the parts of their time there is no more to gather.
pub(super) fn foreign(reader: &Reader, filter: &Filter, evidence: &mut Evidence) -> Result<(), QueryError> {
    for stored in reader.off_cpu_within(filter)? {
        let process = evidence.processes.iter().find(|process| process.pid == stored.pid);
        evidence.foreign.push(ForeignOp {
            pid: stored.pid,
            process: process.map(|process| process.comm.clone()).filter(|comm| !comm.is_empty()),
            op: stored.op.clone(),
            calls: stored.calls,
            slow_calls: stored.slow_calls,
            slow_ns: stored.slow_ns,
            off_cpu_ns: stored.off_cpu_ns,
            cold_ns: stored.cold_ns,
            off_cpu_pct: stored.off_cpu_pct(),
            p50_ns: stored.p50_ns,
            p99_ns: stored.p99_ns,
            max_ns: stored.max_ns,
            sum_ns: stored.sum_ns,
        });
    }
    Ok(())
}
