//! The parts of a path: what its time went to, by class, thread and place in the code.

use super::handed::{Handed, Share};
use super::partners::Partners;
use super::running::{Running, is_launch, is_own};
use super::short_waits::in_call;
use super::walk::{Segment, What};
use crate::activity::{Activity, Caller, Syscall, ThreadSample, ThreadWait};
use gpuwhy_model::{Cause, Family, Frame, FrameKind, OpId, Part as TimePart, Reason, Span, WokenBy};
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
    /// Most of it is in calls that free memory.
    pub(crate) frees: bool,
    /// Most of it is in launches: where that is a wait for the GPU, its queue is full.
    pub(crate) launches: bool,
    /// Threads that have a part in it besides the one it is of, and their time.
    pub(crate) others: Vec<(u32, u64)>,
}

impl Part {
    /// Takes in another part of the same class; its own place stays.
    pub(crate) fn absorb(&mut self, other: &Part) {
        self.ns += other.ns;
        self.samples += other.samples;
        self.waits += other.waits;
        other.by.iter().for_each(|(who, ns)| *self.by.entry(*who).or_default() += ns);
        other.objects.iter().for_each(|(object, ns)| *self.objects.entry(*object).or_default() += ns);
        other.ops.iter().for_each(|(op, ns)| *self.ops.entry(*op).or_default() += ns);
    }
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
    /// What waits of one thread for another come to.
    pub(crate) handed: Handed,
    /// Of the same time: the shares that running in calls has, by what the calls are for. Stands in for samples where there
    /// are none.
    pub(crate) in_calls: BTreeMap<u32, Vec<(Cause, f64)>>,
    pub(crate) partners: Partners,
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
            self.add_run(tid, &ran, span, &mut parts);
        }
        // Waits too short to be recorded have no place of their own, either.
        let short: Vec<Key> =
            parts.keys().filter(|key| key.function.is_none() && !is_running(key.class)).cloned().collect();
        for key in short {
            if let Some(part) = parts.remove(&key) {
                let other = unplaced.entry((key.class, key.tid)).or_default();
                other.ns += part.ns;
                other.waits += part.waits;
                part.by.iter().for_each(|(who, ns)| *other.by.entry(*who).or_default() += ns);
            }
        }
        for ((class, tid), mut part) in unplaced {
            self.place_unrecorded(class, tid, &mut part, span, &mut parts);
            place_as_others(class, tid, part, &mut parts);
        }
        join_disk_time(&mut parts);
        join_copies(&mut parts);
        for part in parts.values_mut() {
            part.stack_id = self.hottest(&part.stacks);
            let op =
                part.ops.iter().max_by_key(|(_, ns)| **ns).and_then(|(id, _)| self.running.op(OpId(*id)));
            part.frees = op.is_some_and(|op| op.family == Family::Free);
            part.launches = op.is_some_and(is_launch);
        }
        parts
    }

    /// Where a thread ran most of the time within a span.
    pub(crate) fn hottest_of(&self, tid: u32, span: Span) -> Option<i64> {
        let mut stacks: BTreeMap<i64, u64> = BTreeMap::new();
        for sample in self.running.on_cpu(tid, span.start_ns, span.end_ns) {
            if let Some(id) = sample.stack_id {
                *stacks.entry(id).or_default() += sample.weight_ns;
            }
        }
        self.hottest(&stacks)
    }

    /// The stack that was met most often at the line that was.
    fn hottest(&self, stacks: &BTreeMap<i64, u64>) -> Option<i64> {
        let mut lines: BTreeMap<Option<(&str, u32)>, u64> = BTreeMap::new();
        for (id, ns) in stacks {
            *lines.entry(self.running.own_line(*id)).or_default() += ns;
        }
        // A stack whose own line is not known says less than one whose line is.
        let line =
            lines.iter().filter(|(line, _)| line.is_some()).max_by_key(|(_, ns)| **ns).map(|(line, _)| *line);
        let at = |id: &i64| line.is_none_or(|line| self.running.own_line(*id) == line);
        stacks.iter().filter(|(id, _)| at(id)).max_by_key(|(id, ns)| (**ns, **id)).map(|(id, _)| *id)
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

    fn add_run(&self, tid: u32, ran: &Ran, span: Span, parts: &mut Parts) {
        let calls = self.activity.callers.contains_key(&tid);
        let mut left = ran.ns;
        for (cause, by_tid, share) in self.short_waits.get(&tid).into_iter().flatten() {
            let ns = ((ran.ns as f64 * share) as u64).min(left);
            left -= ns;
            // A short wait for another thread goes to what that thread does: as in the longer ones, where there are any.
            let is_partner = || self.partners.contains(&(tid, *by_tid));
            let hands_on = match cause {
                Cause::LockFutex | Cause::IoFile | Cause::NetWait => true,
                Cause::CpuPreempted => is_partner(),
                _ => false,
            };
            if let Some(shares) = self.handed.get(&(tid, *by_tid)).filter(|_| hands_on) {
                shares.iter().for_each(|share| add_share(share, ns, parts));
                continue;
            }
            let follows = match cause {
                Cause::LockFutex => self.activity.threads.contains_key(by_tid),
                Cause::CpuPreempted => is_partner(),
                _ => false,
            };
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
        let mut samples: Vec<_> = ran
            .spans
            .iter()
            .flat_map(|span| self.running.on_cpu(tid, span.start_ns, span.end_ns))
            .copied()
            .collect();
        // One of many workers is waited for now and then: what it does else is what it does then.
        if samples.len() < MIN_SAMPLES && !calls {
            samples = self.running.on_cpu(tid, span.start_ns, span.end_ns).to_vec();
        }
        // Time in page faults is clocked exactly where it is summed; its samples then only tell the place.
        let faults =
            self.short_waits.get(&tid).into_iter().flatten().any(|(cause, ..)| *cause == Cause::MemFault);
        let (faulting, samples): (Vec<_>, Vec<_>) =
            samples.into_iter().partition(|sample| faults && sample.in_fault);
        self.place_faults(tid, &faulting, &samples, parts);
        let weight: u64 = samples.iter().map(|sample| sample.weight_ns.max(1)).sum();
        let calls_by_now = |caller: &Caller| caller.first_ns <= ran.end_ns();
        if samples.len() < MIN_SAMPLES {
            let launches = self.activity.callers.get(&tid).is_some_and(calls_by_now);
            let rest = match launches {
                _ if self.compiles(tid) => Cause::GpuColdstart,
                true => Cause::LaunchBound,
                false => Cause::CpuSelf,
            };
            for (class, share) in self.in_calls.get(&tid).into_iter().flatten() {
                let ns = ((ran.ns as f64 * share) as u64).min(left);
                left -= ns;
                parts.entry(Key { class: *class, tid, function: None }).or_default().ns += ns;
            }
            parts.entry(Key { class: rest, tid, function: None }).or_default().ns += left;
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
            let class =
                if self.compiles(tid) { Cause::GpuColdstart } else { self.running.class(sample, calls) };
            let function = match class {
                // Launching is one part of a thread, wherever in the model it is.
                Cause::LaunchBound => None,
                Cause::CpuSelf => self
                    .running
                    .task_of(sample.stack_id)
                    .or_else(|| function_of(self.running.frames(sample.stack_id))),
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

    /// `faulting`: samples in faults; `others`: the rest, those of system calls that fault on what they fill among them.
    fn place_faults(
        &self,
        tid: u32,
        faulting: &[&ThreadSample],
        others: &[&ThreadSample],
        parts: &mut Parts,
    ) {
        let whole = parts.remove(&Key { class: Cause::MemFault, tid, function: None });
        let Some(mut whole) = whole else { return };
        let weight_of =
            |samples: &[&ThreadSample]| samples.iter().map(|sample| sample.weight_ns.max(1)).sum::<u64>();
        let weight = weight_of(faulting);
        // More than was sampled outside of system calls: the rest is within reads, into memory that is new.
        let reads: Vec<&ThreadSample> =
            others.iter().copied().filter(|sample| sample.syscall == Syscall::Read).collect();
        let in_reads = whole.ns.saturating_sub(weight);
        if in_reads as f64 > whole.ns as f64 * FAULTS_IN_READS && !reads.is_empty() {
            whole.ns -= in_reads;
            self.place_by_samples(Cause::IoFile, tid, in_reads, &reads, parts);
        }
        if weight == 0 {
            parts.insert(Key { class: Cause::MemFault, tid, function: None }, whole);
            return;
        }
        self.place_by_samples(Cause::MemFault, tid, whole.ns, faulting, parts);
    }

    /// Waits of a thread none of whose recorded ones was sampled, as a poll's short sleeps, are where its samples of other waits of
    /// that class are: these are of its time, not of single waits.
    fn place_unrecorded(&self, class: Cause, tid: u32, unplaced: &mut Part, span: Span, parts: &mut Parts) {
        let is_of_class = |sample: &&ThreadSample| {
            Cause::of_part(None, sample.part, 0) == class && sample.stack_id.is_some()
        };
        let samples = self.running.waiting(tid, span.start_ns, span.end_ns).iter().copied();
        let samples: Vec<&ThreadSample> = samples.filter(is_of_class).collect();
        let mut of_thread = parts.iter().filter(|(key, _)| (key.class, key.tid) == (class, tid));
        if samples.is_empty() || of_thread.any(|(_, part)| part.waits > 0) {
            return;
        }
        self.place_by_samples(class, tid, std::mem::take(&mut unplaced.ns), &samples, parts);
        for sample in samples {
            let function = function_of(self.running.frames(sample.stack_id));
            parts.entry(Key { class, tid, function }).or_default().waits += 1;
        }
    }

    /// Distributes time over the places of samples.
    fn place_by_samples(
        &self,
        class: Cause,
        tid: u32,
        whole_ns: u64,
        samples: &[&ThreadSample],
        parts: &mut Parts,
    ) {
        let weight: u64 = samples.iter().map(|sample| sample.weight_ns.max(1)).sum();
        for sample in samples {
            let function = function_of(self.running.frames(sample.stack_id));
            let part = parts.entry(Key { class, tid, function }).or_default();
            let ns = (whole_ns as f64 * sample.weight_ns.max(1) as f64 / weight.max(1) as f64) as u64;
            part.ns += ns;
            part.samples += 1;
            if let Some(id) = sample.stack_id {
                *part.stacks.entry(id).or_default() += ns;
            }
        }
    }

    /// Whether a thread is a compiler's, which a model is compiled with.
    fn compiles(&self, tid: u32) -> bool {
        const COMPILERS: [&str; 9] =
            ["ptxas", "cicc", "nvcc", "fatbinary", "cc1plus", "gcc", "g++", "ld", "as"];
        self.activity.threads.get(&tid).is_some_and(|thread| COMPILERS.contains(&thread.comm.as_str()))
    }

    pub(crate) fn class_of_wait(&self, wait: &ThreadWait) -> Cause {
        let op = self.running.op(wait.op);
        if wait.syscall == Syscall::WaitChild || self.command_of(wait).is_some() {
            return Cause::ProcWait;
        }
        let class = match (Cause::of_part(op, wait.part, wait.by_pid), wait.woken_by) {
            // Who waits for an event with a time-out and gets the time-out has slept.
            (Cause::LockFutex | Cause::NetWait, Some(WokenBy::Timer)) => Cause::SelfSleep,
            (class, _) => class,
        };
        in_call(op, class)
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

/// Adds what a share has of so much.
fn add_share(share: &Share, ns: u64, parts: &mut Parts) {
    let ns = (ns as f64 * share.share) as u64;
    let part = parts.entry(share.key.clone()).or_default();
    part.ns += ns;
    if let Some(id) = share.stack_id {
        *part.stacks.entry(id).or_default() += ns;
    }
}

/// What a thread does while it has a CPU.
pub(crate) fn is_running(class: Cause) -> bool {
    matches!(
        class,
        Cause::CpuSelf
            | Cause::LaunchBound
            | Cause::PythonGc
            | Cause::GpuWait
            | Cause::GpuAlloc
            | Cause::GpuColdstart
            | Cause::CopyPcie
            | Cause::GraphRecapture
    )
}

/// Fewer samples say nothing about where a thread ran.
const MIN_SAMPLES: usize = 5;
/// Faults that no sample outside of system calls met are a matter of chance up to this share.
const FAULTS_IN_READS: f64 = 0.3;

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
pub(crate) fn clipped(segments: &[Segment], span: Span) -> impl Iterator<Item = Segment> + '_ {
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

/// Page faults within copies are summed exactly, and have no place of their own: they are where the copies are.
fn join_copies(parts: &mut Parts) {
    let unplaced: Vec<Key> =
        parts.keys().filter(|key| key.class == Cause::CopyPcie && key.function.is_none()).cloned().collect();
    for key in unplaced {
        let others = parts.iter().filter(|(other, _)| {
            other.class == key.class && other.tid == key.tid && other.function.is_some()
        });
        let Some(place) = others.max_by_key(|(_, part)| part.ns).map(|(other, _)| other.clone()) else {
            continue;
        };
        let part = parts.remove(&key).unwrap_or_default();
        if let Some(whole) = parts.get_mut(&place) {
            whole.absorb(&part);
        }
    }
}

/// What a thread that waits for a disk computes in the same reads and writes is the disk's, too: pages are pinned and copied
/// for it.
fn join_disk_time(parts: &mut Parts) {
    let keys: Vec<Key> = parts.keys().filter(|key| key.class == Cause::IoBlock).cloned().collect();
    for disk in keys {
        let mut beside: Vec<Key> = parts
            .keys()
            .filter(|key| key.class == Cause::IoFile && key.tid == disk.tid)
            .filter(|key| disk.function.is_none() || key.function == disk.function)
            .cloned()
            .collect();
        // The waits may be too short to be met: then they are where the rest of the reads is.
        beside.sort_by_key(|key| std::cmp::Reverse(parts.get(key).map_or(0, |part| part.ns)));
        let Some(place) = beside.first().cloned() else { continue };
        let Some(mut whole) = parts.remove(&disk) else { continue };
        let waited = whole.ns;
        for key in &beside {
            let Some(more) =
                parts.get(key).filter(|part| part.by.is_empty() && waited * 4 >= part.ns).cloned()
            else {
                continue;
            };
            parts.remove(key);
            whole.ns += more.ns;
            whole.samples += more.samples;
            more.stacks.iter().for_each(|(id, ns)| *whole.stacks.entry(*id).or_default() += ns);
        }
        let function = disk.function.clone().or(place.function);
        parts.insert(Key { function, ..disk }, whole);
    }
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
