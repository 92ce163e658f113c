//! Stacks as the kernel took them: given to be unwound and told apart, then to be named.

use crate::ended::Ended;
use crate::names::{Names, Request};
use crate::outside::Outside;
use crate::pythons::Pythons;
use crate::reader::Reader;
use crate::reading::{MAX_KNOWN, Read, Step, Work};
use crate::stuck::Place;
use gpuwhy_model::{Batch, Frame, ProcessEventKind, RawStack, Stack};
use gpuwhy_symbols::Ahead;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Frames kept of a stack.
pub(crate) const MAX_FRAMES: usize = 192;
/// Processes whose files are opened in one batch: a millisecond each.
const MAX_SEEN: usize = 32;
/// Processes whose mappings are followed.
const MAX_WITH_LIBRARY: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Stacks {
    names: Names,
    /// The number of each stack the kernel has sent, by its key.
    by_key: HashMap<u64, i64>,
    /// Processes that have a GPU library: they are met whenever they map something.
    with_library: HashSet<u32>,
    /// Those that have mapped something since they were met.
    changed: BTreeSet<u32>,
    ahead: Ahead,
    ended: Ended,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            names: Names::start(),
            by_key: HashMap::new(),
            with_library: HashSet::new(),
            changed: BTreeSet::new(),
            ahead: Ahead::default(),
            ended: Ended::default(),
        }
    }
}

impl Stacks {
    /// Gives each call the number of its stack, and the batch the stacks that are new.
    pub(crate) fn complete(&mut self, batch: &mut Batch, pythons: &mut Pythons, reader: &Reader) {
        let (without_codes, codes) = pythons.take_codes(batch);
        let (before, raw_stacks) = split_at_exec(batch);
        let step = |raw: RawStack| {
            let runtime = pythons.at(raw.pid, raw.time_ns);
            Step::Stack(Box::new(raw), runtime)
        };
        let mut steps: Vec<Step> = before.into_iter().map(step).collect();
        steps.extend(self.follow(batch, &raw_stacks));
        steps.extend(raw_stacks.into_iter().map(step));
        let work = Work { without_codes, codes, steps };
        if !work.is_empty() {
            let read = reader.run(|reading| reading.work(work)).unwrap_or_default();
            reader.read_stacks(read.numbers.len());
            self.take(read);
        }
        batch.stacks.extend(self.names.take());
        if self.names.knows_nothing() {
            let seen = reader.run(|reading| reading.all_seen()).unwrap_or_default();
            self.names.go_on(seen);
        }
        let nccl = batch.nccl_calls.iter_mut().map(|call| &mut call.call);
        for call in batch.calls.iter_mut().chain(nccl) {
            if call.stack_key != 0 {
                call.stack_id = self.by_key.get(&call.stack_key).copied();
            }
        }
        for sample in batch.cpu_samples.iter_mut().filter(|sample| sample.stack_key != 0) {
            sample.stack_id = self.by_key.get(&sample.stack_key).copied();
        }
    }

    fn take(&mut self, read: Read) {
        if self.by_key.len() >= MAX_KNOWN {
            self.by_key.clear();
        }
        self.by_key.extend(read.numbers);
        for request in read.requests {
            self.names.ask(request);
        }
    }

    /// Stacks whose names were not found in time come as addresses.
    pub(crate) fn finish(&mut self, batch: &mut Batch) {
        batch.stacks.extend(self.names.finish());
    }

    /// A process maps a file: a GPU library, or another one while it has such. What it executes is opened with the next
    /// batch, as it may make its call and end before anything else tells of it.
    pub(crate) fn see_mapped(&mut self, pid: u32, is_library: bool) {
        if self.with_library.len() >= MAX_WITH_LIBRARY {
            self.with_library.clear();
        }
        if is_library {
            self.with_library.insert(pid);
        }
        if self.with_library.contains(&pid) {
            self.changed.insert(pid);
        }
    }

    /// Opens what a process executes while it lives, and lets go of those that ended when their last records are through.
    fn follow(&mut self, batch: &Batch, raw_stacks: &[RawStack]) -> Vec<Step> {
        let mut steps = Vec::new();
        for pid in self.ended.pass() {
            self.changed.remove(&pid);
            self.with_library.remove(&pid);
            self.ahead.forget(pid);
            steps.push(Step::Forget(pid));
        }
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Seen => drop(self.changed.insert(event.pid)),
                ProcessEventKind::Exec => {
                    self.ended.remove(event.pid);
                    self.with_library.remove(&event.pid);
                    self.ahead.forget(event.pid);
                    steps.push(Step::Forget(event.pid));
                }
                ProcessEventKind::Fork => {
                    self.ended.remove(event.child);
                    self.ahead.inherit(event.pid, event.child);
                    steps.push(Step::Inherit(event.pid, event.child));
                }
                ProcessEventKind::Exit => self.ended.add(event.pid),
                _ => {}
            }
        }
        // After what the kernel said: an exec comes before what the new program maps.
        let next = next_to_see(&mut self.changed, raw_stacks).into_iter();
        steps.extend(next.map(|pid| Step::See(pid, self.ahead.open(pid))));
        steps
    }

    /// Takes a stack that was read from outside. Its names come with a later batch; until then its Python frames stand for
    /// it, where there are any.
    pub(crate) fn take_outside(
        &mut self,
        outside: Outside,
        batch: &mut Batch,
        reader: &Reader,
    ) -> Option<Place> {
        let placed = reader.run(|reading| reading.place(outside))?;
        if let Some(unnamed) = placed.unnamed {
            self.names.ask(Request::Name(unnamed));
        }
        batch.stacks.extend(placed.of_python);
        placed.place
    }

    /// The number of what is known of a place by now.
    pub(crate) fn known(&self, place: &Place) -> Option<i64> {
        place.whole.filter(|whole| self.names.has(*whole)).or(place.stack_id)
    }
}

/// Python's frames alone; nothing where there are none.
pub(crate) fn stack_of(pid: u32, mut frames: Vec<Frame>) -> Option<Stack> {
    frames.truncate(MAX_FRAMES);
    let stack_id = stack_id(pid, &[], frames.iter());
    (!frames.is_empty()).then_some(Stack { stack_id, pid, frames, ..Stack::default() })
}

pub(crate) fn stack_id<'a>(pid: u32, addresses: &[u64], python: impl Iterator<Item = &'a Frame>) -> i64 {
    let mut hasher = DefaultHasher::new();
    (pid, addresses).hash(&mut hasher);
    for frame in python {
        (&frame.function, &frame.file, frame.line).hash(&mut hasher);
    }
    hasher.finish() as i64
}

/// Those whose stacks are here first. Where processes come by the thousand, the others' turn is later.
fn next_to_see(changed: &mut BTreeSet<u32>, raw_stacks: &[RawStack]) -> Vec<u32> {
    let with_stacks: HashSet<u32> = raw_stacks.iter().map(|stack| stack.pid).collect();
    let (now, later): (Vec<u32>, Vec<u32>) = changed.iter().partition(|pid| with_stacks.contains(pid));
    let next: Vec<u32> = now.into_iter().chain(later).take(MAX_SEEN).collect();
    for pid in &next {
        changed.remove(pid);
    }
    next
}

/// The stacks of programs that became others since, and all others.
fn split_at_exec(batch: &mut Batch) -> (Vec<RawStack>, Vec<RawStack>) {
    let is_before = |raw: &RawStack| {
        batch.process_events.iter().any(|event| {
            event.kind == ProcessEventKind::Exec && event.pid == raw.pid && raw.time_ns < event.time_ns
        })
    };
    std::mem::take(&mut batch.raw_stacks).into_iter().partition(is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_stacks_are_met_first_and_the_others_later() {
        let most = MAX_SEEN as u32;
        let mut changed: BTreeSet<u32> = (1..=2 * most).collect();
        let stack = RawStack { pid: 2 * most, ..RawStack::default() };
        let first = next_to_see(&mut changed, &[stack]);
        assert_eq!((first.len(), first[0], first[1]), (MAX_SEEN, 2 * most, 1));
        let mut all: BTreeSet<u32> = first.into_iter().collect();
        all.extend(next_to_see(&mut changed, &[]));
        assert_eq!(all, (1..=2 * most).collect());
        assert!(changed.is_empty());
    }
}
