//! Calls that took longer than their operation normally takes.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, at, cause_in_words, place_of, seconds};
use crate::evidence::ColdCall;
use crate::fixes::fixes;
use crate::op_ledger::OpLedger;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::{Cause, Family, Layer, Place, Severity, Span};

pub(super) const RULE: Rule = Rule {
    name: "slow_calls",
    about: "the time of an operation's calls beyond what they normally take, billed to causes by the blame clock",
    causes: &[
        Cause::CpuPreempted,
        Cause::CpuThrottled,
        Cause::CpuInterrupt,
        Cause::CpuSelf,
        Cause::SelfSleep,
        Cause::LockFutex,
        Cause::PythonGil,
        Cause::MemFault,
        Cause::MemReclaim,
        Cause::IoBlock,
        Cause::IoFile,
        Cause::NetWait,
        Cause::GpuAlloc,
        Cause::GpuColdstart,
        Cause::DriverContention,
        Cause::Unknown,
    ],
    threshold: "1% of the time in which the process used the GPU and 5 ms; medium from 5% and 50 ms on, high from 20%, \
                critical from 50%: a busy but healthy host stays below 2%",
    refuted_by: "the same operation as slow in a run without the named cause; \
                 `SELECT cause, by_comm, sum(ns) FROM blame GROUP BY 1, 2` showing other parts",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    // The driver's ioctls are inside of other calls; who waits for the GPU has a rule of his own.
    case.ops
        .iter()
        .filter(|op| {
            op.info.layer != Layer::Driver && !op.info.waits_for_gpu && op.info.family != Family::Copy
        })
        .filter_map(|op| draft(case, op))
        .collect()
}

fn draft(case: &Case<'_>, op: &OpLedger<'_>) -> Option<Draft> {
    let pid = op.sums.pid;
    let wall = case.wall(pid).ns();
    let attribution = op.excess.clone();
    if !matters(attribution.total_ns(), wall) {
        return None;
    }
    let main = attribution.main()?;
    let place = place_of(case, pid, &op.sums.op);
    let at = at(&place);
    if main == Cause::GpuColdstart
        && let Some(start) = start_of(case, op)
    {
        let title = lost_of(case, op, attribution.total_ns(), start.ns(), &attribution, &at);
        return Some(Draft {
            severity: Some(Severity::Low),
            title: format!("at its start: {title}"),
            window: Some(start),
            of_ns: Some(start.ns()),
            phase: Some("start"),
            ..of_calls(case, op, attribution, place)
        });
    }
    Some(Draft {
        severity: Some(severity(op, &attribution, main, wall)),
        title: match main {
            Cause::GpuWait => waits_for_gpu(case, op, attribution.ns(main), &at),
            _ => lost(case, op, attribution.total_ns(), &attribution, &at),
        },
        ..of_calls(case, op, attribution, place)
    })
}

/// The start of a process, where all that was loaded in an operation was loaded before its loop: sums are of windows of half a second,
/// and one in which the loop begins has some of its start.
fn start_of(case: &Case<'_>, op: &OpLedger<'_>) -> Option<Span> {
    let phases = &case.paths.iter().find(|path| path.pid == op.sums.pid)?.phases;
    let loaded =
        || case.evidence.cold_calls.iter().filter(|call| call.pid == op.sums.pid && call.op == op.sums.op);
    let is_before =
        |call: &ColdCall| call.start_ns.saturating_add(call.duration_ns) <= phases.repeats.start_ns;
    (case.evidence.phase.as_deref() == Some("loop") && loaded().next().is_some() && loaded().all(is_before))
        .then_some(phases.start)?
}

/// What is not explained is worse where it is more, but nobody is accused by it.
fn severity(op: &OpLedger<'_>, attribution: &Attribution, main: Cause, wall_ns: u64) -> Severity {
    let taken = of_taken(op.taken_ns(), wall_ns);
    let unexplained = attribution.sum_of(|cause| !cause.explains());
    let unexplained = match main.explains() {
        false => of_taken(unexplained / 2, wall_ns).max(Severity::Medium),
        true => Severity::Low,
    };
    taken.min(unexplained)
}

/// A finding about the calls of an operation, but for what it says of them.
pub(super) fn of_calls(case: &Case<'_>, op: &OpLedger<'_>, attribution: Attribution, place: Place) -> Draft {
    let pid = op.sums.pid;
    Draft {
        fixes: fixes(case, pid, &attribution),
        sql: sql(pid, &op.sums.op),
        op: Some(op.sums.op.clone()),
        pid: Some(pid),
        attribution,
        place,
        ..Draft::default()
    }
}

/// The title of calls that lost time, and to what.
pub(super) fn lost(
    case: &Case<'_>,
    op: &OpLedger<'_>,
    ns: u64,
    attribution: &Attribution,
    at: &str,
) -> String {
    lost_of(case, op, ns, case.wall(op.sums.pid).ns(), attribution, at)
}

/// The same as a share of another time.
fn lost_of(
    case: &Case<'_>,
    op: &OpLedger<'_>,
    ns: u64,
    of_ns: u64,
    attribution: &Attribution,
    at: &str,
) -> String {
    let why = attribution.main().map(|main| cause_in_words(case, attribution, main)).unwrap_or_default();
    format!(
        "{} of {}{at} lost {} ({:.0}% of its time): {why}",
        op.sums.op,
        case.name(op.sums.pid),
        seconds(ns),
        percent(ns, of_ns)
    )
}

/// The title of calls whose time is the GPU's.
pub(super) fn waits_for_gpu(case: &Case<'_>, op: &OpLedger<'_>, ns: u64, at: &str) -> String {
    let pid = op.sums.pid;
    format!(
        "{} waits for the GPU {:.0}% of its time, {} in all, in {}{at}",
        case.name(pid),
        percent(ns, case.wall(pid).ns()),
        seconds(ns),
        op.sums.op
    )
}

fn sql(pid: u32, op: &str) -> String {
    format!(
        "SELECT cause, by_pid, by_comm, sum(ns) / 1e6 AS ms, sum(count) AS count FROM blame WHERE pid = {pid} AND op = '{}' \
         GROUP BY 1, 2, 3 ORDER BY ms DESC",
        op.replace('\'', "''")
    )
}
