//! Calls: exact sums of all, and of the kept ones where they were made and what their tails are made of.

use super::row::{Row, each_row, rows};
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{Billed, ColdCall, FailedCalls, ForeignOp, OpSums, Pace, Site, TailSum};
use gpuwhy_model::{Blame, Cause, Family, Reason};
use gpuwhy_store::{CallStats, Filter, Reader};
use std::collections::{BTreeMap, HashMap};

/// Of more kept calls than this only a part is looked at.
const MOST_CALLS: u64 = 400_000;

pub(super) fn sums(reader: &Reader, filter: &Filter, evidence: &mut Evidence) -> Result<(), QueryError> {
    let mut sums: BTreeMap<(u32, String), OpSums> = BTreeMap::new();
    let mut paces: BTreeMap<(u64, u32), Pace> = BTreeMap::new();
    let busy = BusyTimes::read(reader, filter)?;
    let ops = std::mem::take(&mut evidence.ops);
    let does_work = |op: &str| {
        ops.get(op).is_some_and(|op| matches!(op.family, Family::Launch | Family::Copy | Family::Graph))
    };
    reader.each_call_stats(filter, |stats| {
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

pub(super) fn bills(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT pid, tid, op, cause, by_pid, by_tid, by_comm, by_cgroup_id, sum(ns), sum(count), min(window_start_ns), \
               max(window_start_ns) FROM blame WHERE window_start_ns >= ?1 AND window_start_ns < ?2 \
               GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8";
    let causes: HashMap<&str, Cause> = Cause::ALL.iter().map(|cause| (cause.name(), *cause)).collect();
    for row in rows(reader, sql, times)? {
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
fn parts() -> String {
    let reasons = Reason::ALL.map(|reason| format!("c.{}", reason.column()));
    format!("c.oncpu_ns, c.runq_ns, {}", reasons.join(", "))
}

fn blame(row: &Row<'_>, at: usize) -> Blame {
    let mut blame = Blame { oncpu_ns: row.number(at), runq_ns: row.number(at + 1), ..Blame::default() };
    for (place, ns) in blame.blocked_ns.iter_mut().enumerate() {
        *ns = row.number(at + 2 + place);
    }
    blame
}

/// Slow, failed and rare calls are looked at more often than those that were kept because all were.
pub(super) fn kept(
    reader: &Reader,
    times: [u64; 2],
    per_process: bool,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let counts = "SELECT total(kept = 2), count(*) FROM calls WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2";
    let counts = rows(reader, counts, times)?;
    let (slow, all) = counts.first().map_or((0, 0), |row| (row.number(0), row.number(1)));
    // By time: which rows are looked at does not depend on where they lie.
    let every = |n: u64| (n / MOST_CALLS).max(1);
    let (every_slow, every_other) = (every(slow), every(all - slow));
    let sql = format!(
        "SELECT c.pid, o.op, c.stack_id, c.duration_ns, c.kept, c.sample_weight, c.handle, {} FROM calls c \
         JOIN ops o ON o.op_id = c.op_id WHERE c.timestamp_ns >= ?1 AND c.timestamp_ns < ?2 AND \
         iif(c.kept = 2, c.timestamp_ns % {every_slow} = 0, c.timestamp_ns % {every_other} = 0)",
        parts()
    );
    let limits = tail_limits(evidence, per_process);
    let names = kernel_names(reader, times)?;
    let mut sites: BTreeMap<(u32, String, i64, Option<String>), Site> = BTreeMap::new();
    let mut tails: BTreeMap<(Option<u32>, String, &'static str), TailSum> = BTreeMap::new();
    each_row(reader, &sql, times, |row| {
        let (pid, op, duration_ns) = (row.id(0), row.text(1), row.number(3));
        let is_slow = row.number(4) == 2;
        let weight = if row.number(4) == 3 { row.number(5).max(1) } else { 1 };
        let weight = weight * if is_slow { every_slow } else { every_other };
        for of in [None, Some(pid)] {
            for (quantile, p_ns) in limits.get(&(of, op.clone())).into_iter().flatten() {
                if duration_ns < *p_ns {
                    continue;
                }
                let tail = tails.entry((of, op.clone(), quantile)).or_insert_with(|| TailSum {
                    pid: of,
                    op: op.clone(),
                    quantile: (*quantile).into(),
                    p_ns: *p_ns,
                    ..TailSum::default()
                });
                add_weighted(&mut tail.blame, &blame(row, 7), weight);
            }
        }
        let Some(stack_id) = row.signed(2) else { return };
        let kernel = row.signed(6).and_then(|handle| names.get(&(pid, handle)).cloned());
        let site = sites.entry((pid, op.clone(), stack_id, kernel.clone())).or_insert_with(|| Site {
            pid,
            op,
            stack_id,
            kernel,
            calls: 0,
            ns: 0,
            slow_ns: 0,
        });
        site.calls += weight;
        site.ns += duration_ns * weight;
        site.slow_ns += if is_slow { duration_ns * weight } else { 0 };
    })?;
    evidence.sites = sites.into_values().collect();
    evidence.tails.extend(tails.into_values());
    Ok(())
}

fn add_weighted(sum: &mut Blame, part: &Blame, weight: u64) {
    sum.oncpu_ns += part.oncpu_ns * weight;
    sum.runq_ns += part.runq_ns * weight;
    for (sum, ns) in sum.blocked_ns.iter_mut().zip(part.blocked_ns) {
        *sum += ns * weight;
    }
}

/// A quantile's name, and the duration from which on calls are counted.
type Limits = Vec<(&'static str, u64)>;

/// The quantiles of each operation, of all processes together and of each by itself where that is wanted; the median is
/// told by the exact sums.
fn tail_limits(evidence: &mut Evidence, per_process: bool) -> HashMap<(Option<u32>, String), Limits> {
    let mut all: BTreeMap<(Option<u32>, &str), OpSums> = BTreeMap::new();
    for sums in &evidence.sums {
        for pid in [None, Some(sums.pid)].into_iter().take(if per_process { 2 } else { 1 }) {
            all.entry((pid, &sums.op)).or_default().merge(sums);
        }
    }
    let mut limits = HashMap::new();
    let mut medians = Vec::new();
    for ((pid, op), sums) in all {
        let at = |q: f64| sums.quantile_ns(q);
        medians.push(TailSum {
            pid,
            op: op.into(),
            quantile: "p50".into(),
            p_ns: at(0.5),
            blame: sums.blame,
        });
        limits.insert((pid, op.to_string()), vec![("p99", at(0.99)), ("p99.9", at(0.999))]);
    }
    evidence.tails = medians;
    limits
}

fn kernel_names(reader: &Reader, times: [u64; 2]) -> Result<HashMap<(u32, i64), String>, QueryError> {
    let sql = "SELECT pid, handle, name FROM kernels WHERE name <> ''";
    let mut names = HashMap::new();
    for row in rows(reader, sql, times)? {
        let handle = row.text(1);
        if let Ok(handle) = u64::from_str_radix(handle.trim_start_matches("0x"), 16) {
            names.insert((row.id(0), handle as i64), row.text(2));
        }
    }
    Ok(names)
}

pub(super) fn cold(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    // The call itself has the parts of its time; where it is not on file, all of it was the call's own.
    let sql = format!(
        "SELECT e.pid, e.op, e.event, e.name, e.duration_ns, e.stack_id, c.duration_ns, {} FROM coldstart_events e \
         LEFT JOIN calls c ON c.timestamp_ns = e.timestamp_ns AND c.pid = e.pid AND c.tid = e.tid \
         AND c.op_id = (SELECT op_id FROM ops WHERE op = e.op) \
         WHERE e.timestamp_ns >= ?1 AND e.timestamp_ns < ?2 ORDER BY e.duration_ns DESC, e.timestamp_ns, e.tid LIMIT 20000",
        parts()
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

pub(super) fn failed(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT c.pid, o.op, c.ret, count(*), sum(c.duration_ns), min(c.timestamp_ns), max(c.timestamp_ns), \
               max(c.stack_id) FROM calls c JOIN ops o ON o.op_id = c.op_id \
               WHERE c.kept = 1 AND c.timestamp_ns >= ?1 AND c.timestamp_ns < ?2 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    for row in rows(reader, sql, times)? {
        evidence.failed_calls.push(FailedCalls {
            pid: row.id(0),
            op: row.text(1),
            ret: row.signed(2).unwrap_or(0) as i32,
            count: row.number(3),
            ns: row.number(4),
            first_ns: row.number(5),
            last_ns: row.number(6),
            stack_id: row.signed(7),
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
            off_cpu_pct: stored.off_cpu_pct(),
            p50_ns: stored.p50_ns,
            p99_ns: stored.p99_ns,
            max_ns: stored.max_ns,
            sum_ns: stored.sum_ns,
        });
    }
    Ok(())
}
