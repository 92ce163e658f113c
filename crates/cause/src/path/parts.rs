//! The parts of a path: what its time went to, by class, thread and place in the code.

use super::running::{Running, is_own};
use super::walk::{Segment, What};
use crate::activity::{Activity, Caller, Syscall, ThreadWait};
use crate::evidence::Billed;
use gpuwhy_model::{Cause, Frame, FrameKind, Part as TimePart, Reason, Span, WokenBy};
use std::collections::BTreeMap;

/// Time of the path with one class, in one thread, at one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    pub(crate) ns: u64,
    /// Samples that tell where; a share without any is not placed.
    pub(crate) samples: u64,
    /// The stack that was met most often.
    pub(crate) stack_id: Option<i64>,
    pub(crate) waits: u64,
    /// Who was behind it, where that is another one: process, thread, time.
    pub(crate) by: BTreeMap<(u32, u32), u64>,
    /// Files and peers: place in the list of objects, time.
    pub(crate) objects: BTreeMap<u32, u64>,
    /// Operations that were in flight.
    pub(crate) ops: BTreeMap<u16, u64>,
    pub(crate) stacks: BTreeMap<i64, u64>,
}

/// What tells one part from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) class: Cause,
    pub(crate) tid: u32,
    /// The program's own function: file and name. Nothing where no sample tells.
    pub(crate) function: Option<(String, String)>,
}

pub(crate) type Parts = BTreeMap<Key, Part>;

/// Looks at segments: the rest of what a class is decided by.
#[derive(Debug)]
pub(crate) struct Divider<'a> {
    pub(crate) activity: &'a Activity,
    pub(crate) running: Running<'a>,
    /// Of a thread's time that no recorded wait covers: the shares that unrecorded waits have.
    pub(crate) short_waits: BTreeMap<u32, Vec<(Cause, u32, f64)>>,
}

impl Divider<'_> {
    /// The parts of the path within a span; they sum to its length.
    pub(crate) fn parts(&self, segments: &[Segment], span: Span) -> Parts {
        let mut parts = Parts::new();
        // Time whose place no sample tells, by class and thread.
        let mut unplaced: BTreeMap<(Cause, u32), Part> = BTreeMap::new();
        let mut ran: BTreeMap<u32, Ran> = BTreeMap::new();
        for segment in clipped(segments, span) {
            match segment.what {
                What::Running => {
                    let ran = ran.entry(segment.tid).or_default();
                    ran.ns += segment.span.ns();
                    ran.spans.push(segment.span);
                }
                What::Waiting(wait) => self.add_wait(&wait, segment.span, &mut parts, &mut unplaced),
            }
        }
        for (tid, ran) in ran {
            self.add_run(tid, &ran, &mut parts);
        }
        for ((class, tid), part) in unplaced {
            place_as_others(class, tid, part, &mut parts);
        }
        for part in parts.values_mut() {
            part.stack_id = part.stacks.iter().max_by_key(|(id, ns)| (**ns, **id)).map(|(id, _)| *id);
        }
        parts
    }

    fn add_wait(
        &self,
        wait: &ThreadWait,
        span: Span,
        parts: &mut Parts,
        unplaced: &mut BTreeMap<(Cause, u32), Part>,
    ) {
        let class = self.class_of_wait(wait);
        let samples = self.running.waiting(wait.tid, wait.start_ns, wait.end_ns);
        // All of one wait is at one place.
        let sample = samples.iter().find(|sample| sample.stack_id.is_some());
        let part = match sample {
            Some(sample) => {
                let function = function_of(self.running.frames(sample.stack_id));
                let part = parts.entry(Key { class, tid: wait.tid, function }).or_default();
                part.samples += 1;
                if let Some(id) = sample.stack_id {
                    *part.stacks.entry(id).or_default() += span.ns();
                }
                part
            }
            None => unplaced.entry((class, wait.tid)).or_default(),
        };
        part.ns += span.ns();
        part.waits += 1;
        if wait.by_tid != 0 {
            *part.by.entry((wait.by_pid, wait.by_tid)).or_default() += span.ns();
        }
        if let Some(object) = wait.object {
            *part.objects.entry(object).or_default() += span.ns();
        }
    }

    fn add_run(&self, tid: u32, ran: &Ran, parts: &mut Parts) {
        let calls = self.activity.callers.contains_key(&tid);
        let mut left = ran.ns;
        for (cause, by_tid, share) in self.short_waits.get(&tid).into_iter().flatten() {
            let ns = ((ran.ns as f64 * share) as u64).min(left);
            left -= ns;
            // A short wait for another thread goes to what that thread does.
            let follows = self.activity.threads.contains_key(by_tid) && *cause == Cause::LockFutex;
            let (class, tid) = match follows {
                true if self.activity.callers.contains_key(by_tid) => (Cause::LaunchBound, *by_tid),
                true => (Cause::CpuSelf, *by_tid),
                false => (*cause, tid),
            };
            let part = parts.entry(Key { class, tid, function: None }).or_default();
            part.ns += ns;
            if *by_tid != 0 && !follows {
                let pid = self.activity.threads.get(by_tid).map_or(0, |thread| thread.pid);
                *part.by.entry((pid, *by_tid)).or_default() += ns;
            }
        }
        let samples: Vec<_> = ran
            .spans
            .iter()
            .flat_map(|span| self.running.on_cpu(tid, span.start_ns, span.end_ns))
            .copied()
            .collect();
        let weight: u64 = samples.iter().map(|sample| sample.weight_ns.max(1)).sum();
        let calls_by_now = |caller: &Caller| caller.first_ns <= ran.end_ns();
        if samples.len() < MIN_SAMPLES {
            let launches = self.activity.callers.get(&tid).is_some_and(calls_by_now);
            let class = if launches { Cause::LaunchBound } else { Cause::CpuSelf };
            parts.entry(Key { class, tid, function: None }).or_default().ns += left;
            return;
        }
        let mut given = 0;
        for (at, sample) in samples.iter().enumerate() {
            let ns = match at + 1 == samples.len() {
                true => left - given,
                false => (left as f64 * sample.weight_ns.max(1) as f64 / weight as f64) as u64,
            }
            .min(left - given);
            given += ns;
            let class = self.running.class(sample, calls);
            let function = match class {
                // Launching is one part of a thread, wherever in the model it is.
                Cause::LaunchBound => None,
                _ => function_of(self.running.frames(sample.stack_id)),
            };
            let part = parts.entry(Key { class, tid, function }).or_default();
            part.ns += ns;
            part.samples += 1;
            if let Some(id) = sample.stack_id {
                *part.stacks.entry(id).or_default() += ns;
            }
            if sample.op.0 != 0 {
                *part.ops.entry(sample.op.0).or_default() += ns;
            }
        }
    }

    pub(crate) fn class_of_wait(&self, wait: &ThreadWait) -> Cause {
        let op = self.running.op(wait.op);
        if wait.syscall == Syscall::WaitChild || self.command_of(wait).is_some() {
            return Cause::ProcWait;
        }
        let class = Cause::of_part(op, wait.part, wait.by_pid);
        match (class, wait.woken_by) {
            // Who waits for an event with a time-out and gets the time-out has slept.
            (Cause::LockFutex | Cause::NetWait, Some(WokenBy::Timer)) => Cause::SelfSleep,
            (Cause::LockFutex, _) if op.is_some_and(|op| op.waits_for_gpu) => Cause::GpuWait,
            (class, _) => class,
        }
    }

    /// The command of a child whose end, or output, a wait was for.
    pub(crate) fn command_of(&self, wait: &ThreadWait) -> Option<&str> {
        let command = self.activity.commands.get(&wait.by_pid)?;
        (command.parent_pid == wait.pid).then_some(command.command.as_str())
    }

    /// Of a pipe that is full: whoever reads it is to blame, and what it does instead is its own affair.
    pub(crate) fn is_full_pipe(wait: &ThreadWait) -> bool {
        wait.part == TimePart::Blocked(Reason::File) && wait.syscall == Syscall::Write
    }
}

/// Fewer samples say nothing about where a thread ran.
const MIN_SAMPLES: usize = 5;

#[derive(Debug, Default)]
struct Ran {
    ns: u64,
    spans: Vec<Span>,
}

impl Ran {
    fn end_ns(&self) -> u64 {
        self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0)
    }
}

/// The segments as far as they lie in a span.
fn clipped(segments: &[Segment], span: Span) -> impl Iterator<Item = Segment> + '_ {
    // Latest first.
    let from = segments.partition_point(|segment| segment.span.start_ns >= span.end_ns);
    segments[from..].iter().take_while(move |segment| segment.span.end_ns > span.start_ns).map(
        move |segment| Segment {
            span: Span {
                start_ns: segment.span.start_ns.max(span.start_ns),
                end_ns: segment.span.end_ns.min(span.end_ns),
            },
            ..*segment
        },
    )
}

/// Waits that no sample met are where the others of their class and thread are.
fn place_as_others(class: Cause, tid: u32, unplaced: Part, parts: &mut Parts) {
    let others: Vec<(Key, u64)> = parts
        .iter()
        .filter(|(key, part)| key.class == class && key.tid == tid && part.waits > 0)
        .map(|(key, part)| (key.clone(), part.ns))
        .collect();
    let total: u64 = others.iter().map(|(_, ns)| *ns).sum();
    if total == 0 {
        parts.insert(Key { class, tid, function: None }, unplaced);
        return;
    }
    let mut left = unplaced.ns;
    for (at, (key, ns)) in others.iter().enumerate() {
        let share = *ns as f64 / total as f64;
        let more = if at + 1 == others.len() { left } else { (unplaced.ns as f64 * share) as u64 };
        left -= more;
        let Some(part) = parts.get_mut(key) else { continue };
        part.ns += more;
        part.waits += (unplaced.waits as f64 * share).round() as u64;
        let scaled = |ns: u64| (ns as f64 * share) as u64;
        for (who, ns) in &unplaced.by {
            *part.by.entry(*who).or_default() += scaled(*ns);
        }
        for (object, ns) in &unplaced.objects {
            *part.objects.entry(*object).or_default() += scaled(*ns);
        }
    }
}

/// The program's own function that a stack is in, else the innermost one.
pub(crate) fn function_of(frames: &[Frame]) -> Option<(String, String)> {
    let frame = own_frame(frames)?;
    Some((frame.file.clone().unwrap_or_default(), frame.function.clone().unwrap_or_default()))
}

pub(crate) fn own_frame(frames: &[Frame]) -> Option<&Frame> {
    let python = || frames.iter().filter(|frame| frame.kind == FrameKind::Python);
    python().find(|frame| is_own(frame)).or_else(|| python().next())
}

/// Shares of unrecorded waits in the time of each thread that no recorded wait covers: the exact sums of its waits less what
/// was recorded one by one.
pub(crate) fn short_waits(
    bills: &[&Billed],
    recorded: &BTreeMap<(u32, Cause), u64>,
    uncovered_ns: &BTreeMap<u32, u64>,
) -> BTreeMap<u32, Vec<(Cause, u32, f64)>> {
    /// Less is noise of two clocks.
    const MIN_SHARE: f64 = 0.005;
    let mut sums: BTreeMap<(u32, Cause), (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for row in bills.iter().filter(|row| is_wait(row)) {
        let sum = sums.entry((row.tid, row.cause)).or_default();
        sum.0 += row.ns;
        *sum.1.entry(row.by_tid).or_default() += row.ns;
    }
    let mut shares: BTreeMap<u32, Vec<(Cause, u32, f64)>> = BTreeMap::new();
    for ((tid, cause), (ns, by)) in sums {
        let missing = ns.saturating_sub(recorded.get(&(tid, cause)).copied().unwrap_or(0));
        let Some(uncovered) = uncovered_ns.get(&tid).filter(|ns| **ns > 0) else { continue };
        let share = (missing as f64 / *uncovered as f64).min(1.0);
        if share < MIN_SHARE {
            continue;
        }
        let who = by.iter().max_by_key(|(_, ns)| **ns).map_or(0, |(tid, _)| *tid);
        shares.entry(tid).or_default().push((cause, who, share));
    }
    for all in shares.values_mut() {
        let total: f64 = all.iter().map(|(_, _, share)| share).sum();
        if total > 1.0 {
            all.iter_mut().for_each(|(_, _, share)| *share /= total);
        }
    }
    shares
}

/// Time that a thread did not run.
fn is_wait(row: &Billed) -> bool {
    !matches!(
        row.cause,
        Cause::CpuSelf
            | Cause::GpuWait
            | Cause::GpuAlloc
            | Cause::Unknown
            | Cause::GpuColdstart
            | Cause::CopyPcie
    )
}
