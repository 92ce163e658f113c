//! Calls: exact sums of all, and what starting took.

use super::row::{Row, rows};
use super::scope::Scope;
use crate::QueryError;
use crate::estimates::Estimates;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{ColdCall, ForeignOp, OpSums, Pace};
use gpuwhy_model::{Blame, CallClass, Family, Reason};
use gpuwhy_store::{CallStats, Filter, Reader};
use std::collections::{BTreeMap, BTreeSet};

/// From here on all of a time was watched.
const WHOLE_PCT: f64 = 99.5;

pub(super) fn sums(
    reader: &Reader,
    filter: &Filter,
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let mut sums: BTreeMap<(u32, String), OpSums> = BTreeMap::new();
    let mut paces: BTreeMap<(u64, u32), Pace> = BTreeMap::new();
    let busy = BusyTimes::read(reader, filter)?;
    let estimates = Estimates::read(reader, evidence.span)?;
    let sliced = |op: &str| estimates.as_ref().and_then(|estimates| estimates.class(op));
    let ops = std::mem::take(&mut evidence.ops);
    let does_work = |op: &str| {
        ops.get(op).is_some_and(|op| matches!(op.family, Family::Launch | Family::Copy | Family::Graph))
    };
    reader.each_call_stats(filter, |stats| {
        if !scope.has(stats.pid, stats.window_start_ns) {
            return;
        }
        if does_work(&stats.op) && sliced(&stats.op).is_none() {
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
    match estimates {
        Some(estimates) => scale_sums(&estimates, scope, evidence),
        None => mark_detached(reader, scope, evidence)?,
    }
    Ok(())
}

/// Versions before slices detached what was called too often for a while: what was counted is the least there was.
fn mark_detached(reader: &Reader, scope: &Scope, evidence: &mut Evidence) -> Result<(), QueryError> {
    if reader.attached_pct(evidence.span)?.is_empty() {
        return Ok(());
    }
    let mut attached = BTreeMap::new();
    for pid in evidence.sums.iter().map(|sums| sums.pid).collect::<BTreeSet<u32>>() {
        attached.insert(pid, reader.attached_pct(scope.within(pid, evidence.span))?);
    }
    for sums in &mut evidence.sums {
        let class = evidence.ops.get(&sums.op).and_then(CallClass::of_op);
        let attached = class.and_then(|class| attached.get(&sums.pid)?.get(&class).copied());
        sums.watched_pct = attached.filter(|pct| *pct < WHOLE_PCT);
    }
    Ok(())
}

/// Calls that were watched in slices count as many as they stand for. How much of the work was done in a window without a
/// slice nobody knows: the pace of such processes is left out.
fn scale_sums(estimates: &Estimates, scope: &Scope, evidence: &mut Evidence) {
    for sums in &mut evidence.sums {
        let within = scope.within(sums.pid, evidence.span);
        let Some(class) = estimates.class(&sums.op) else { continue };
        let watched = estimates.watched(class, sums.pid);
        // Of the time in which the process ran: one that ended soon may have been watched all its life.
        let life = estimates.life(sums.pid, within);
        let of_life = watched.map(|watched| watched.pct_within(life));
        sums.watched_pct = of_life.filter(|pct| *pct < WHOLE_PCT);
        if sums.watched_pct.is_none() {
            continue;
        }
        // The last slice with calls is not when they ended.
        sums.last_ns = sums.last_ns.max(life.end_ns);
        let Some(estimate) = estimates.calls(sums.pid, &sums.op, within) else { continue };
        let factor = estimate.value / sums.count.max(1) as f64;
        let scaled = |number: u64| (number as f64 * factor).round() as u64;
        sums.count = estimate.value.round() as u64;
        sums.errors = scaled(sums.errors);
        sums.bytes = scaled(sums.bytes);
        sums.sum_ns = scaled(sums.sum_ns);
        sums.blame = sums.blame.scaled(factor);
        sums.busy_count = scaled(sums.busy_count);
        sums.busy_oncpu_ns = scaled(sums.busy_oncpu_ns);
        sums.estimate = Some(estimate);
    }
    let sliced: BTreeSet<u32> =
        evidence.sums.iter().filter(|sums| sums.watched_pct.is_some()).map(|sums| sums.pid).collect();
    evidence.paces.retain(|pace| !sliced.contains(&pace.pid));
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
        sums.busy_count = sums.busy_count.saturating_add(stats.count);
        sums.busy_oncpu_ns = sums.busy_oncpu_ns.saturating_add(stats.blame.oncpu_ns);
    }
    if sums.count == 0 {
        sums.first_ns = stats.window_start_ns;
    }
    sums.first_ns = sums.first_ns.min(stats.window_start_ns);
    sums.last_ns = sums.last_ns.max(stats.window_start_ns.saturating_add(stats.window_ns));
    sums.count = sums.count.saturating_add(stats.count);
    sums.errors = sums.errors.saturating_add(stats.errors);
    sums.bytes = sums.bytes.saturating_add(stats.bytes);
    sums.sum_ns = sums.sum_ns.saturating_add(stats.sum_ns);
    sums.max_ns = sums.max_ns.max(stats.max_ns);
    sums.hist.merge(&stats.hist);
    sums.blame.add(&stats.blame);
    sums.pid = stats.pid;
    sums.op = stats.op;
}

/// The columns of a call's parts, as [`blame`] reads them.
pub(super) fn parts() -> String {
    let reasons = Reason::ALL.map(|reason| format!("c.{}", reason.column()));
    format!("c.oncpu_ns, c.runq_ns, {}", reasons.join(", "))
}

pub(crate) fn blame(row: &Row<'_>, at: usize) -> Blame {
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
    // A call belongs to the phase that the window with its sums belongs to: the one in which it returned.
    let window = "ifnull((SELECT max(w.window_start_ns) FROM call_stats w WHERE w.pid = e.pid \
                  AND w.window_start_ns <= e.timestamp_ns + ifnull(e.duration_ns, 0)), e.timestamp_ns)";
    // The call itself has the parts of its time; where it is not on file, all of it was the call's own.
    let sql = format!(
        "SELECT e.pid, e.op, e.event, e.name, e.duration_ns, e.stack_id, e.timestamp_ns, c.duration_ns, {} FROM coldstart_events e \
         LEFT JOIN calls c ON c.timestamp_ns = e.timestamp_ns AND c.pid = e.pid AND c.tid = e.tid \
         AND c.op_id = (SELECT op_id FROM ops WHERE op = e.op) \
         WHERE e.timestamp_ns >= ?1 AND e.timestamp_ns < ?2{} ORDER BY e.duration_ns DESC, e.timestamp_ns, e.tid LIMIT 20000",
        parts(),
        scope.condition("e.pid", window)
    );
    for row in rows(reader, &sql, times)? {
        let duration_ns = row.number(4);
        let blame = match row.maybe(7) {
            Some(_) => blame(&row, 8),
            None => Blame { oncpu_ns: duration_ns, ..Blame::default() },
        };
        evidence.cold_calls.push(ColdCall {
            pid: row.id(0),
            op: row.text(1),
            event: row.text(2),
            name: row.text(3),
            start_ns: row.number(6),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
mod tests {
    use super::*;
    use gpuwhy_model::{
        Batch, CallWindow, ColdStart, Facts, Family, Histogram, Layer, OpId, OpInfo, Role, Span,
    };
    use gpuwhy_store::{Options, SessionInfo, Writer};

    const MS: u64 = 1_000_000;

    fn window(start_ms: u64) -> CallWindow {
        CallWindow {
            window_start_ns: start_ms * MS,
            window_ns: 500 * MS,
            pid: 7,
            tid: 7,
            op: OpId(1),
            direction: None,
            count: 1,
            errors: 0,
            kept: 0,
            bytes: 0,
            sum_ns: MS,
            min_ns: MS,
            max_ns: MS,
            blame: Blame::default(),
            hist: Histogram::default(),
            cost_ns: 0,
            beside_ns: 0,
            slice: 0,
        }
    }

    fn first_launch(start_ms: u64, ms: u64) -> ColdStart {
        ColdStart {
            start_ns: start_ms * MS,
            duration_ns: ms * MS,
            event: "first_launch".into(),
            op: OpId(1),
            pid: 7,
            tid: 7,
            cgroup_id: 0,
            name: String::new(),
            bytes: 0,
            ret: 0,
            stack_id: None,
        }
    }

    #[test]
    fn a_cold_call_is_of_the_phase_that_its_sums_are_of() {
        let op = OpInfo {
            id: OpId(1),
            name: "cuLaunchKernel".into(),
            layer: Layer::Cuda,
            family: Family::Launch,
            waits_for_gpu: false,
            role: Role::None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.db");
        let session = SessionInfo::default();
        let mut writer = Writer::create_or_append(&path, &session, &[op], &Options::default()).unwrap();
        let batch = Batch { windows: [100, 600, 1_100, 1_600].map(window).into(), ..Batch::default() };
        // One returns in the last window of the start, shortly before the loop begins; another within the loop.
        let cold_starts = vec![first_launch(800, 100), first_launch(900, 300)];
        writer.write(&batch, &Facts { cold_starts, ..Facts::default() }).unwrap();
        writer.finish(3_000 * MS).unwrap();
        let reader = Reader::open(&path).unwrap();
        let loops = vec![(7, Span { start_ns: 1_000 * MS, end_ns: 3_000 * MS })];
        let found = |scope: Scope| {
            let mut evidence = Evidence::default();
            cold(&reader, [0, u64::MAX], &scope, &mut evidence).unwrap();
            evidence.cold_calls.iter().map(|call| call.duration_ns / MS).collect::<Vec<_>>()
        };
        assert_eq!(found(Scope::Start(loops.clone())), [100]);
        assert_eq!(found(Scope::Loop(loops)), [300]);
    }
}
