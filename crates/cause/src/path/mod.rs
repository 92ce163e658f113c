//! The critical path of each process that drives a GPU: what the time of its loop went to, along the wake-ups, across threads
//! and processes.

mod computing;
mod gpu_use;
mod handed;
mod noise;
mod pairs;
mod partners;
mod parts;
mod passes;
mod period;
mod phase;
mod rarest_kernel;
mod running;
mod savings;
mod short_waits;
mod stalls;
mod steps;
mod timeline;
mod tree;
mod walk;
mod whole;
mod without;
mod words;

pub use noise::StepNoise;
pub(crate) use parts::{Key, Part, Parts};
pub(crate) use steps::Turn;
pub use tree::{PathPart, Requests, Stall, StepTree};
pub(crate) use tree::{Scale, is_sampled, trees};
pub(crate) use whole::{Whole, whole_parts};
pub(crate) use words::{describe, hidden, main_op, who};

use crate::activity::{Activity, BeatKind, ThreadWait};
use crate::evidence::Evidence;
use gpu_use::{busy, busy_source, proven_busy, sharers};
use gpuwhy_model::{Cause, Layer, Part as TimePart, Reason, Span};
use handed::{Handed, handed};
use pairs::turns_of_pair;
use partners::partners;
use parts::Divider;
use period::{CountedBy, Period, period};
use phase::{Life, Phases, phases};
use rarest_kernel::rarest_kernel;
use running::Running;
use short_waits::{in_call, short_waits};
use stalls::stalls;
use std::collections::{BTreeMap, BTreeSet};
use steps::{Turns, turns};
use timeline::Timelines;
use walk::{HandsOn, Hop, Walk, What, is_for_another, walk};
use without::{Difference, differences};

/// What a process's time went to.
#[derive(Debug)]
pub(crate) struct ProcessPath {
    pub(crate) pid: u32,
    /// The thread from which the path is walked.
    pub(crate) root: u32,
    pub(crate) phases: Phases,
    pub(crate) found_by: Option<BeatKind>,
    pub(crate) turns: Option<Turns>,
    /// Turns far longer than the others, or stalls where no turns are known; longest first.
    pub(crate) outliers: Vec<Turn>,
    pub(crate) loop_parts: Parts,
    pub(crate) start_parts: Parts,
    /// Of what follows the loop, where that lasts.
    pub(crate) end_parts: Parts,
    /// Time of the loop that was waited for processes whose own waits are not recorded, by process.
    pub(crate) left_to: BTreeMap<u32, u64>,
    /// By thread at the end of the path: the waits that led there, most time first.
    pub(crate) ways: BTreeMap<u32, Way>,
    /// How long the thread of the path waited for each process that it was handed to.
    waits_for: BTreeMap<u32, u64>,
    /// How busy its GPU was in the loop, by the GPU's own counter.
    pub(crate) busy_pct: Option<f64>,
    pub(crate) busy_source: &'static str,
    /// How busy its streams were at least, copies included.
    pub(crate) proven_busy_pct: f64,
    /// What threads of the path other than its own did in the whole loop, by thread and class: more than what fell into a
    /// wait for them.
    pub(crate) whole: BTreeMap<(u32, Cause), u64>,
    /// Where those who had the interpreter's lock ran, by thread.
    pub(crate) hottest: BTreeMap<u32, i64>,
    /// Other processes that had work on the same GPU meanwhile.
    pub(crate) sharers: Vec<u32>,
    /// What steps take less that do not have a part, by class and thread.
    differences: BTreeMap<(Cause, u32), Difference>,
}

/// Waits that handed the path to a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    pub(crate) ns: u64,
    pub(crate) count: u64,
    pub(crate) from_pid: u32,
    pub(crate) from_tid: u32,
    pub(crate) class: Option<Cause>,
    pub(crate) stack_id: Option<i64>,
}

/// Contexts are made and modules are loaded within so long after the first call, where that is the first of the process.
const START_OF_CALLS_NS: u64 = 1_000_000_000;
/// Sums of calls are of windows of this length.
const CALLS_WINDOW_NS: u64 = 500_000_000;
/// Shorter ones say nothing about a loop.
const MIN_LOOP_NS: u64 = 300_000_000;
/// What takes longer than this behind a loop is worth a tree: a last checkpoint, an evaluation.
const MIN_END_NS: u64 = 500_000_000;

/// One for each process that makes GPU calls, by its number.
pub(crate) fn paths(evidence: &Evidence) -> Vec<ProcessPath> {
    let activity = &evidence.activity;
    let timelines = Timelines::new(activity);
    let running = Running::new(evidence, activity);
    let mut divider = Divider {
        activity,
        short_waits: BTreeMap::new(),
        handed: Handed::new(),
        in_calls: in_calls(evidence, &running),
        running,
        partners: partners(activity, &evidence.attribution),
    };
    pids(activity)
        .into_iter()
        .filter_map(|pid| process_path(evidence, &timelines, &mut divider, pid))
        .collect()
}

/// When each process that drives a GPU was in its loop.
pub fn loops(evidence: &Evidence) -> Vec<(u32, Span)> {
    let of = |pid| {
        let (found, _) = phases_of(evidence, pid)?;
        (found.repeats.ns() >= MIN_LOOP_NS).then_some((pid, found.repeats))
    };
    pids(&evidence.activity).into_iter().filter_map(of).collect()
}

/// Processes that make GPU calls.
fn pids(activity: &Activity) -> BTreeSet<u32> {
    activity.callers.values().map(|caller| caller.pid).collect()
}

fn phases_of(evidence: &Evidence, pid: u32) -> Option<(Phases, Option<Period>)> {
    let activity = &evidence.activity;
    let mut calls: Option<Span> = None;
    for caller in activity.callers.values().filter(|caller| caller.pid == pid) {
        let span = calls.get_or_insert(Span { start_ns: caller.first_ns, end_ns: caller.last_ns });
        span.start_ns = span.start_ns.min(caller.first_ns);
        span.end_ns = span.end_ns.max(caller.last_ns);
    }
    let mut calls = calls?;
    let process = evidence.processes.iter().rfind(|process| process.pid == pid);
    let mut traced = evidence.span;
    let mut began_before = true;
    if let Some(process) = process {
        began_before = process.start_ns < traced.start_ns;
        traced.start_ns = traced.start_ns.max(process.start_ns.min(traced.end_ns));
        traced.end_ns =
            process.end_ns.map_or(traced.end_ns, |end| traced.end_ns.min(end.max(traced.start_ns)));
    }
    // Before that a thread would seem to run when it waited.
    if activity.whole_from_ns > traced.start_ns {
        traced.start_ns = activity.whole_from_ns.min(traced.end_ns);
        began_before = true;
    }
    // Windows begin before calls do, and end after them.
    calls.start_ns = calls.start_ns.clamp(traced.start_ns, traced.end_ns);
    calls.end_ns = calls.end_ns.clamp(calls.start_ns, traced.end_ns);
    // Calls are known by their windows: what a process did before it first loaded something was no loop.
    let first_load = activity.first_load.get(&pid).copied().unwrap_or(0);
    let loads_here = (1..=calls.start_ns + START_OF_CALLS_NS).contains(&first_load);
    if (calls.start_ns..calls.start_ns + CALLS_WINDOW_NS).contains(&first_load) {
        calls.start_ns = first_load.min(calls.end_ns);
    }
    let period = period(activity, pid, calls);
    let mut cold: Vec<u64> =
        activity.cold.iter().filter(|(of, _)| *of == pid).map(|(_, time)| *time).collect();
    cold.sort_unstable();
    // A command that is traced from its start was forked before the trace began, and imports first.
    let began_before = began_before && !loads_here;
    let life = Life { traced, calls, began_before, period: period.as_ref(), cold: &cold };
    Some((phases(&life), period))
}

fn process_path(
    evidence: &Evidence,
    timelines: &Timelines,
    divider: &mut Divider<'_>,
    pid: u32,
) -> Option<ProcessPath> {
    let (phases, period) = phases_of(evidence, pid)?;
    if phases.repeats.ns() < MIN_LOOP_NS {
        return None;
    }
    let period = period.or_else(|| rarest_kernel(evidence, pid, phases.repeats));
    let root = root(&evidence.activity, pid)?;
    let whole = Span {
        start_ns: phases.start.map_or(phases.repeats.start_ns, |start| start.start_ns),
        end_ns: phases.repeats.end_ns,
    };
    let walked = walk(timelines, root, whole, &Follows { pid, divider });
    divider.handed = handed(divider, &walked, phases.repeats);
    divider.short_waits = unrecorded(evidence, timelines, divider, &walked, phases.repeats);
    let loop_parts = divider.parts(&walked.segments, phases.repeats);
    let (turns, outliers) = match &period {
        Some(period) => {
            let counted = counted(evidence, period, phases.repeats);
            let (turns, outliers) = turns(period, phases.repeats, counted, divider, &walked.segments);
            (Some(turns), outliers)
        }
        None => (None, stalls(divider, &walked.segments, phases.repeats)),
    };
    let differences = match &turns {
        // Where not all are recorded, what lies between two of them is no step.
        Some(turns) if turns.is_complete => {
            let times: Vec<u64> = period
                .iter()
                .flat_map(|period| &period.times)
                .copied()
                .filter(|time| (phases.repeats.start_ns..=phases.repeats.end_ns).contains(time))
                .collect();
            differences(divider, &walked.segments, &times)
        }
        _ => BTreeMap::new(),
    };
    divider.short_waits.clear();
    divider.handed.clear();
    let start_parts = phases.start.map(|start| divider.parts(&walked.segments, start)).unwrap_or_default();
    let end_parts = phases.end.filter(|end| end.ns() >= MIN_END_NS).map(|end| {
        let walked = walk(timelines, root, end, &Follows { pid, divider });
        divider.parts(&walked.segments, end)
    });
    Some(ProcessPath {
        pid,
        phases,
        start_parts,
        end_parts: end_parts.unwrap_or_default(),
        left_to: left_to(divider, &walked, timelines, phases.repeats),
        found_by: period.map(|period| period.kind),
        turns,
        outliers,
        ways: ways(divider, &walked.hops, phases.repeats),
        waits_for: waits_for(&walked.hops, root, phases.repeats),
        busy_pct: busy(&evidence.activity, pid, phases.repeats),
        busy_source: busy_source(&evidence.activity, pid, phases.repeats),
        proven_busy_pct: proven_busy(evidence, pid),
        whole: whole_times(divider, timelines, &loop_parts, root, phases.repeats),
        root,
        hottest: holders(&loop_parts)
            .filter_map(|tid| Some((tid, divider.hottest_of(tid, phases.repeats)?)))
            .collect(),
        sharers: sharers(&evidence.activity, pid, phases.repeats),
        differences,
        loop_parts,
    })
}

/// The turns of a period, where they are counted and not each is recorded.
fn counted(evidence: &Evidence, period: &Period, span: Span) -> Option<u64> {
    let of = match period.counted_by? {
        CountedBy::Waits(of) => of,
        CountedBy::Rate(rate) => return Some((rate.per_second * span.ns() as f64 / 1e9).round() as u64),
        CountedBy::Total(count) => return Some(count),
    };
    let waits = |tid: u32, by_tid: u32| -> u64 {
        let rows = evidence.attribution.iter().filter(|row| {
            row.op.is_none() && row.cause == of.cause && (row.tid, row.by_tid) == (tid, by_tid)
        });
        rows.map(|row| row.count).sum()
    };
    let counted = match period.kind {
        BeatKind::HandOver => turns_of_pair(waits(of.tid, of.by_tid), waits(of.by_tid, of.tid)),
        _ => waits(of.tid, of.by_tid),
    };
    // Sums are of all the time that is looked at, of which the loop is a part.
    let within = |time: &&u64| (span.start_ns..=span.end_ns).contains(*time);
    let share = period.times.iter().filter(within).count() as f64 / period.times.len().max(1) as f64;
    Some((counted as f64 * share).round() as u64)
}

/// The thread from which the path is walked: the main thread where it has a part in the calls, as it waits for the others;
/// else the one with most calls.
fn root(activity: &Activity, pid: u32) -> Option<u32> {
    let calls: u64 =
        activity.callers.values().filter(|caller| caller.pid == pid).map(|caller| caller.calls).sum();
    if activity.callers.get(&pid).is_some_and(|main| main.calls * 20 >= calls) {
        return Some(pid);
    }
    let of_process = activity.callers.iter().filter(|(_, caller)| caller.pid == pid);
    of_process.max_by_key(|(tid, caller)| (caller.calls, std::cmp::Reverse(**tid))).map(|(tid, _)| *tid)
}

/// Which waits hand the path on.
struct Follows<'a, 'b> {
    pid: u32,
    divider: &'a Divider<'b>,
}

impl HandsOn for Follows<'_, '_> {
    fn hands_on(&self, wait: &ThreadWait) -> bool {
        if wait.part == TimePart::Runnable {
            return self.divider.partners.contains(&(wait.tid, wait.by_tid));
        }
        // Who has the interpreter of another process matters, not that it has one.
        if wait.part == TimePart::Blocked(Reason::Gil) {
            return wait.pid != self.pid && wait.by_tid != 0;
        }
        is_for_another(wait)
            && !Divider::is_full_pipe(wait)
            // What a command does is its own affair: that it is waited for is the program's.
            && !matches!(self.divider.class_of_wait(wait), Cause::ProcWait | Cause::GpuWait)
    }
}

/// The shares of waits that were too short, or too many, to be recorded one by one.
fn unrecorded(
    evidence: &Evidence,
    timelines: &Timelines,
    divider: &Divider<'_>,
    walked: &Walk,
    span: Span,
) -> BTreeMap<u32, Vec<(Cause, u32, f64)>> {
    let mut tids: Vec<u32> = walked.segments.iter().map(|segment| segment.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    let mut recorded: BTreeMap<(u32, Cause), BTreeMap<u32, u64>> = BTreeMap::new();
    let mut uncovered: BTreeMap<u32, u64> = BTreeMap::new();
    for tid in &tids {
        let mut covered = 0;
        for wait in timelines.of(*tid) {
            let start = wait.start_ns.max(span.start_ns);
            let end = wait.end_ns.min(span.end_ns);
            if end > start {
                covered += end - start;
                let op = divider.running.op(wait.op);
                let cause = in_call(op, Cause::of_part(op, wait.part, wait.by_pid));
                *recorded.entry((*tid, cause)).or_default().entry(wait.by_tid).or_default() += end - start;
            }
        }
        uncovered.insert(*tid, span.ns().saturating_sub(covered));
    }
    let of_path = |row: &&crate::evidence::AttributedTime| tids.binary_search(&row.tid).is_ok();
    let attribution: Vec<&crate::evidence::AttributedTime> =
        evidence.attribution.iter().filter(of_path).collect();
    short_waits(&evidence.ops, &attribution, &recorded, &uncovered)
}

/// The shares of each thread's time that it ran in calls, from their exact sums.
fn in_calls(evidence: &Evidence, running: &Running<'_>) -> BTreeMap<u32, Vec<(Cause, f64)>> {
    let mut sums: BTreeMap<u32, (BTreeMap<Cause, u64>, u64, u64)> = BTreeMap::new();
    for row in &evidence.attribution {
        let Some(op) = row.op.as_ref().and_then(|op| evidence.ops.get(op)) else { continue };
        if op.layer == Layer::Driver
            || !matches!(row.cause, Cause::CpuSelf | Cause::GpuWait | Cause::GpuAlloc)
        {
            continue;
        }
        let (by_class, first, last) = sums.entry(row.tid).or_insert((BTreeMap::new(), u64::MAX, 0));
        *first = (*first).min(row.first_ns);
        *last = (*last).max(row.last_ns);
        let class = running.class_of_call(row.pid, op);
        if class != Cause::LaunchBound {
            *by_class.entry(class).or_default() += row.ns;
        }
    }
    // A first launch loads what it needs: no loop has it.
    for call in evidence.cold_calls.iter().filter(|call| call.event == "first_launch") {
        let main = sums.keys().copied().find(|tid| *tid == call.pid);
        if let Some((by_class, ..)) = main.and_then(|tid| sums.get_mut(&tid)) {
            *by_class.entry(Cause::GpuColdstart).or_default() += call.blame.oncpu_ns;
        }
    }
    let shares = |(by_class, first, last): (BTreeMap<Cause, u64>, u64, u64)| {
        let whole = last.saturating_sub(first) + CALLS_WINDOW_NS;
        by_class.into_iter().map(|(class, ns)| (class, (ns as f64 / whole as f64).min(1.0))).collect()
    };
    sums.into_iter().map(|(tid, sum)| (tid, shares(sum))).collect()
}

/// Where the path leaves what is seen: waits for others of whom nothing is recorded.
fn left_to(divider: &Divider<'_>, walked: &Walk, timelines: &Timelines, span: Span) -> BTreeMap<u32, u64> {
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    for segment in &walked.segments {
        let What::Waiting(wait) = segment.what else { continue };
        let is_unseen = wait.by_pid != 0 && wait.by_pid != wait.pid && !timelines.is_followed(wait.by_tid);
        // A command that is waited for is named as it is.
        if is_unseen && is_for_another(&wait) && divider.class_of_wait(&wait) != Cause::ProcWait {
            let within =
                segment.span.end_ns.min(span.end_ns).saturating_sub(segment.span.start_ns.max(span.start_ns));
            *left.entry(wait.by_pid).or_default() += within;
        }
    }
    left
}

fn waits_for(hops: &[Hop], root: u32, span: Span) -> BTreeMap<u32, u64> {
    let mut waits: BTreeMap<u32, u64> = BTreeMap::new();
    for Hop { wait } in hops.iter().filter(|hop| hop.wait.tid == root) {
        let ns = wait.end_ns.min(span.end_ns).saturating_sub(wait.start_ns.max(span.start_ns));
        *waits.entry(wait.by_pid).or_default() += ns;
    }
    waits
}

fn ways(divider: &Divider<'_>, hops: &[Hop], span: Span) -> BTreeMap<u32, Way> {
    let mut by_pair: BTreeMap<(u32, u32), Way> = BTreeMap::new();
    for Hop { wait } in hops.iter().filter(|hop| (span.start_ns..=span.end_ns).contains(&hop.wait.end_ns)) {
        let way = by_pair.entry((wait.by_tid, wait.tid)).or_default();
        way.ns += wait.ns();
        way.count += 1;
        way.from_pid = wait.pid;
        way.from_tid = wait.tid;
        way.class = Some(divider.class_of_wait(wait));
        if way.stack_id.is_none() {
            let samples = divider.running.waiting(wait.tid, wait.start_ns, wait.end_ns);
            way.stack_id = samples.iter().find_map(|sample| sample.stack_id);
        }
    }
    let mut ways: BTreeMap<u32, Way> = BTreeMap::new();
    for ((to, _), way) in by_pair {
        if ways.get(&to).is_none_or(|known| known.ns < way.ns) {
            ways.insert(to, way);
        }
    }
    ways
}

/// All that the other threads of a path did, of the classes that they have on it.
fn whole_times(
    divider: &Divider<'_>,
    timelines: &Timelines,
    parts: &Parts,
    root: u32,
    span: Span,
) -> BTreeMap<(u32, Cause), u64> {
    let mut whole: BTreeMap<(u32, Cause), u64> = BTreeMap::new();
    for key in parts.keys().filter(|key| key.tid != root) {
        whole.insert((key.tid, key.class), 0);
    }
    let tids: BTreeSet<u32> = whole.keys().map(|(tid, _)| *tid).collect();
    for tid in tids.iter().copied() {
        for wait in timelines.of(tid) {
            let ns = wait.end_ns.min(span.end_ns).saturating_sub(wait.start_ns.max(span.start_ns));
            // What another thread on the path keeps it from is that one's doing.
            let is_for_another = is_for_another(wait) || wait.part == TimePart::Blocked(Reason::Gil);
            if is_for_another && wait.by_tid != tid && tids.contains(&wait.by_tid) {
                continue;
            }
            if let Some(sum) = whole.get_mut(&(tid, divider.class_of_wait(wait))) {
                *sum += ns;
            }
        }
        let calls = divider.activity.callers.contains_key(&tid);
        for sample in divider.running.on_cpu(tid, span.start_ns, span.end_ns) {
            if let Some(sum) = whole.get_mut(&(tid, divider.running.class(sample, calls))) {
                *sum += sample.weight_ns;
            }
        }
    }
    whole
}

/// Threads that had the interpreter's lock while others waited for it.
fn holders(parts: &Parts) -> impl Iterator<Item = u32> {
    let waits = parts.iter().filter(|(key, _)| key.class == Cause::PythonGil);
    waits.flat_map(|(_, part)| part.by.keys().map(|(_, tid)| *tid))
}
