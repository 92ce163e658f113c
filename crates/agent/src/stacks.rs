//! Stacks as the kernel took them: unwound, told apart, and given to be named.

use crate::ended::Ended;
use crate::names::{Names, Ran, Unnamed};
use crate::outside::Outside;
use crate::overview::line_of;
use crate::pythons::Pythons;
use crate::stuck::Place;
use gpuwhy_model::{Batch, Frame, FrameKind, ProcessEventKind, RawStack, Stack};
use gpuwhy_symbols::{Limits, Registers, Swapped, Symbols, Unwound};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Frames kept of a stack.
pub(crate) const MOST_FRAMES: usize = 192;
/// Processes whose files are opened in one batch: a millisecond each.
const MOST_MET: usize = 32;
/// Stacks remembered by key and by number; beyond it all are forgotten, and stored again when they come again.
const MOST_KNOWN: usize = 65_536;
/// Bytes of code that count as one place of a sample; the kernel's LEAF_BYTES.
const SAMPLED_TOGETHER: u64 = 256;
/// Processes whose mappings are followed.
const MOST_WITH_LIBRARY: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Stacks {
    /// For unwinding; names are found elsewhere.
    symbols: Symbols,
    names: Names,
    /// The number of each stack the kernel has sent, by its key.
    by_key: HashMap<u64, i64>,
    /// Stacks that were unwound, by what their frame pointers show: those that were not copied are told by them.
    by_pointers: HashMap<u64, i64>,
    /// Those that are in the file.
    stored: HashSet<i64>,
    /// Processes that have a GPU library: they are met whenever they map something.
    with_library: HashSet<u32>,
    /// Those that have mapped something since they were met.
    changed: BTreeSet<u32>,
    ended: Ended,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            symbols: Symbols::new(Limits::default()),
            names: Names::start(),
            by_key: HashMap::new(),
            by_pointers: HashMap::new(),
            stored: HashSet::new(),
            with_library: HashSet::new(),
            changed: BTreeSet::new(),
            ended: Ended::default(),
        }
    }
}

impl Stacks {
    /// Gives each call the number of its stack, and the batch the stacks that are new.
    pub(crate) fn complete(&mut self, batch: &mut Batch, pythons: &mut Pythons) {
        let (before, raw_stacks) = split_at_exec(batch);
        for raw in before {
            self.take(&raw, pythons);
        }
        self.follow(batch, &raw_stacks);
        for raw in raw_stacks {
            self.take(&raw, pythons);
        }
        batch.stacks.extend(self.names.take());
        batch.raw_codes.clear();
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

    fn take(&mut self, raw: &RawStack, pythons: &mut Pythons) {
        if self.by_key.len() >= MOST_KNOWN {
            self.by_key.clear();
            self.by_pointers.clear();
            self.stored.clear();
        }
        let shown = shown_by_pointers(raw);
        if raw.copied.is_empty()
            && let Some(stack_id) = self.by_pointers.get(&shown)
        {
            self.by_key.insert(raw.key, *stack_id);
            return;
        }
        let unnamed = self.make(raw, pythons);
        let stack = &unnamed.stack;
        if stack.complete {
            self.by_pointers.insert(shown, stack.stack_id);
        }
        self.by_key.insert(raw.key, stack.stack_id);
        if self.stored.insert(stack.stack_id) {
            self.names.ask(unnamed);
        }
    }

    /// Stacks whose names were not found in time come as addresses.
    pub(crate) fn finish(&mut self, batch: &mut Batch) {
        batch.stacks.extend(self.names.finish());
    }

    /// A process maps a file: a GPU library, or another one while it has such. What it executes is opened with the next
    /// batch, as it may make its call and end before anything else tells of it.
    pub(crate) fn see_mapped(&mut self, pid: u32, is_library: bool) {
        if self.with_library.len() >= MOST_WITH_LIBRARY {
            self.with_library.clear();
        }
        if is_library {
            self.with_library.insert(pid);
        }
        if self.with_library.contains(&pid) {
            self.changed.insert(pid);
        }
    }

    fn forget(&mut self, pid: u32) {
        self.with_library.remove(&pid);
        self.symbols.forget(pid);
        self.names.forget(pid);
    }

    /// Opens what a process executes while it lives, and lets go of those that ended when their last records are through.
    fn follow(&mut self, batch: &Batch, raw_stacks: &[RawStack]) {
        for pid in self.ended.pass() {
            self.changed.remove(&pid);
            self.forget(pid);
        }
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Seen => drop(self.changed.insert(event.pid)),
                ProcessEventKind::Exec => {
                    self.ended.remove(event.pid);
                    self.forget(event.pid);
                }
                ProcessEventKind::Fork => {
                    self.ended.remove(event.child);
                    self.symbols.inherit(event.pid, event.child);
                    self.names.inherit(event.pid, event.child);
                }
                ProcessEventKind::Exit => self.ended.add(event.pid),
                _ => {}
            }
        }
        // After what the kernel said: an exec comes before what the new program maps.
        for pid in next_to_meet(&mut self.changed, raw_stacks) {
            self.symbols.meet(pid);
            if let Some(met) = self.symbols.met(pid) {
                self.names.meet(pid, met);
            }
        }
    }

    fn make(&mut self, raw: &RawStack, pythons: &mut Pythons) -> Unnamed {
        let Unwound { addresses, stack_pointers, complete } = self.unwind(raw);
        let python = raw.python.iter().map(|frame| Ran {
            function: python_frame(raw, frame, pythons),
            entry: frame.entry,
            foot: Some(frame.foot).filter(|foot| *foot >= raw.sp),
        });
        let python: Vec<Ran> = python.collect();
        let mut stack = Stack { pid: raw.pid, addresses, complete, ..Stack::default() };
        let identity = identity_of(raw, &stack.addresses);
        stack.stack_id = stack_id(raw.pid, &identity, python.iter().map(|ran| &ran.function));
        Unnamed { stack, stack_pointers, python, is_at_return: !raw.sampled }
    }

    /// Takes a stack that was read from outside. Its names come with a later batch; until then its Python frames stand for
    /// it, where there are any.
    pub(crate) fn take_outside(&mut self, outside: Outside, batch: &mut Batch) -> Option<Place> {
        let Outside { pid, registers, copied, python } = outside;
        let unwound = registers.map_or_else(Unwound::default, |registers| {
            let at = Registers { ip: registers.ip, sp: registers.sp, bp: registers.bp };
            self.symbols.unwind(pid, at, &copied, &swapped(&registers.swapped), MOST_FRAMES)
        });
        let Unwound { addresses, stack_pointers, complete } = unwound;
        let of_python = stack_of(pid, python.iter().map(|ran| ran.function.clone()).collect());
        let mut whole = Stack { pid, addresses, complete, ..Stack::default() };
        whole.stack_id = stack_id(pid, &whole.addresses, python.iter().map(|ran| &ran.function));
        let place = Place {
            stack_id: of_python.as_ref().map(|stack| stack.stack_id),
            whole: (!whole.addresses.is_empty()).then_some(whole.stack_id),
            line: of_python.as_ref().and_then(line_of),
        };
        if place.whole.is_some() && self.stored.insert(whole.stack_id) {
            self.names.ask(Unnamed { stack: whole, stack_pointers, python, is_at_return: false });
        }
        batch.stacks.extend(of_python);
        (place.stack_id.is_some() || place.whole.is_some()).then_some(place)
    }

    /// The number of what is known of a place by now.
    pub(crate) fn known(&self, place: &Place) -> Option<i64> {
        place.whole.filter(|whole| self.names.has(*whole)).or(place.stack_id)
    }

    /// By the tables of the files the process runs; by frame pointers where the stack was not copied.
    fn unwind(&mut self, raw: &RawStack) -> Unwound {
        if raw.copied.is_empty() {
            return self.believable(raw);
        }
        let registers = Registers { ip: raw.ip, sp: raw.sp, bp: raw.bp };
        let swapped = swapped(&raw.swapped);
        let unwound = self.symbols.unwind(raw.pid, registers, &raw.copied, &swapped, MOST_FRAMES);
        match unwound.complete || unwound.addresses.len() >= raw.native.len() {
            true => unwound,
            false => self.believable(raw),
        }
    }

    /// What frame pointers lead to, as far as it is code: in a library without them they lead anywhere.
    fn believable(&mut self, raw: &RawStack) -> Unwound {
        if raw.ip == 0 {
            return Unwound::default();
        }
        let mut addresses = vec![raw.ip];
        for address in raw.native.iter().skip(1) {
            if self.symbols.module_of(raw.pid, *address).is_none() {
                break;
            }
            addresses.push(*address);
        }
        Unwound { addresses, ..Unwound::default() }
    }
}

/// Python's frames alone; nothing where there are none.
pub(crate) fn stack_of(pid: u32, mut frames: Vec<Frame>) -> Option<Stack> {
    frames.truncate(MOST_FRAMES);
    let stack_id = stack_id(pid, &[], frames.iter());
    (!frames.is_empty()).then_some(Stack { stack_id, pid, frames, ..Stack::default() })
}

fn stack_id<'a>(pid: u32, addresses: &[u64], python: impl Iterator<Item = &'a Frame>) -> i64 {
    let mut hasher = DefaultHasher::new();
    (pid, addresses).hash(&mut hasher);
    for frame in python {
        (&frame.function, &frame.file, frame.line).hash(&mut hasher);
    }
    hasher.finish() as i64
}

/// The addresses that identify a stack. Running code is at any instruction: those near each other are one place, as
/// they are for the kernel, and the first one that was sampled stands for it.
fn identity_of(raw: &RawStack, addresses: &[u64]) -> Vec<u64> {
    let mut addresses = addresses.to_vec();
    if let Some(leaf) = addresses.first_mut().filter(|_| raw.sampled) {
        *leaf -= *leaf % SAMPLED_TOGETHER;
    }
    addresses
}

fn swapped(pairs: &[(u64, u64)]) -> Vec<Swapped> {
    pairs.iter().map(|(at, original)| Swapped { at: *at, original: *original }).collect()
}

/// Those whose stacks are here first. Where processes come by the thousand, the others' turn is later.
fn next_to_meet(changed: &mut BTreeSet<u32>, raw_stacks: &[RawStack]) -> Vec<u32> {
    let with_stacks: HashSet<u32> = raw_stacks.iter().map(|stack| stack.pid).collect();
    let (now, later): (Vec<u32>, Vec<u32>) = changed.iter().partition(|pid| with_stacks.contains(pid));
    let next: Vec<u32> = now.into_iter().chain(later).take(MOST_MET).collect();
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

/// The same program at the same depth with the same frame pointers and lines is at the same place.
fn shown_by_pointers(raw: &RawStack) -> u64 {
    let mut hasher = DefaultHasher::new();
    (raw.pid, raw.ip, raw.sp, &raw.native).hash(&mut hasher);
    for frame in &raw.python {
        (frame.code, frame.instr).hash(&mut hasher);
    }
    hasher.finish()
}

fn python_frame(stack: &RawStack, raw: &gpuwhy_model::PythonFrame, pythons: &mut Pythons) -> Frame {
    let (file, function, line) = match pythons.line(stack.pid, stack.time_ns, raw) {
        Some((file, function, line)) => (Some(file), Some(function), line),
        None => (None, None, None),
    };
    Frame { kind: FrameKind::Python, function, file, line, ..Frame::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_stacks_are_met_first_and_the_others_later() {
        let most = MOST_MET as u32;
        let mut changed: BTreeSet<u32> = (1..=2 * most).collect();
        let stack = RawStack { pid: 2 * most, ..RawStack::default() };
        let first = next_to_meet(&mut changed, &[stack]);
        assert_eq!((first.len(), first[0], first[1]), (MOST_MET, 2 * most, 1));
        let mut all: BTreeSet<u32> = first.into_iter().collect();
        all.extend(next_to_meet(&mut changed, &[]));
        assert_eq!(all, (1..=2 * most).collect());
        assert!(changed.is_empty());
    }

    #[test]
    fn samples_near_each_other_are_one_stack_and_calls_are_not() {
        let sample = RawStack { sampled: true, ..RawStack::default() };
        assert_eq!(identity_of(&sample, &[0x1001, 0x2001]), identity_of(&sample, &[0x10ff, 0x2001]));
        assert_ne!(identity_of(&sample, &[0x1001]), identity_of(&sample, &[0x1101]));
        assert_ne!(identity_of(&sample, &[0x1001, 0x2001]), identity_of(&sample, &[0x1001, 0x2002]));
        let call = RawStack::default();
        assert_ne!(identity_of(&call, &[0x1001]), identity_of(&call, &[0x10ff]));
        assert_eq!(identity_of(&sample, &[]), Vec::<u64>::new());
    }
}
