//! What the reader does with stacks and remembers of them: unwound, told apart, with Python's lines.

use crate::codes::Codes;
use crate::names::{Ran, Request, Unnamed};
use crate::outside::Outside;
use crate::overview::line_of;
use crate::runtime::Runtime;
use crate::stacks::{MAX_FRAMES, stack_id, stack_of};
use crate::stuck::Place;
use gpuwhy_model::{RawCode, RawStack, Stack};
use gpuwhy_symbols::{Answer, Registers, Swapped, Symbols, Unwound};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Stacks remembered; beyond it all are forgotten, and stored again when they come again.
pub(crate) const MAX_KNOWN: usize = 65_536;
/// Bytes of code that count as one place of a sample; the kernel's LEAF_BYTES.
const SAMPLED_TOGETHER: u64 = 256;

/// What a batch brings to read.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Processes whose code objects are no more.
    pub(crate) without_codes: Vec<u32>,
    pub(crate) codes: Vec<(RawCode, Arc<Runtime>)>,
    /// In the order in which it came.
    pub(crate) steps: Vec<Step>,
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.without_codes.is_empty() && self.codes.is_empty() && self.steps.is_empty()
    }
}

#[derive(Debug)]
pub(crate) enum Step {
    /// A stack, and what its process ran then.
    Stack(Box<RawStack>, Option<Arc<Runtime>>),
    /// What a process executes, as far as it was opened ahead.
    See(u32, Answer),
    Inherit(u32, u32),
    Forget(u32),
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The number of each stack, by the kernel's key.
    pub(crate) numbers: Vec<(u64, i64)>,
    /// For the thread that finds names, in order.
    pub(crate) requests: Vec<Request>,
}

/// A stack that was read from outside.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) place: Option<Place>,
    /// Its Python frames.
    pub(crate) of_python: Option<Stack>,
    /// All of it, where it is new.
    pub(crate) unnamed: Option<Unnamed>,
}

#[derive(Debug)]
pub(crate) struct Reading {
    /// For unwinding; names are found elsewhere.
    symbols: Symbols,
    codes: Codes,
    /// Stacks that were unwound, by what their frame pointers show: those that were not copied are told by them.
    by_pointers: HashMap<u64, i64>,
    /// Those that are in the file.
    stored: HashSet<i64>,
}

impl Reading {
    pub(crate) fn new(symbols: Symbols) -> Reading {
        Reading { symbols, codes: Codes::default(), by_pointers: HashMap::new(), stored: HashSet::new() }
    }

    pub(crate) fn work(&mut self, work: Work) -> Read {
        for pid in work.without_codes {
            self.codes.forget(pid);
        }
        for (code, runtime) in work.codes {
            self.codes.take(code, &runtime);
        }
        let mut read = Read::default();
        for step in work.steps {
            match step {
                Step::Stack(raw, runtime) => {
                    let (number, unnamed) = self.take(&raw, runtime.as_deref());
                    read.numbers.push((raw.key, number));
                    read.requests.extend(unnamed.map(Request::Name));
                }
                Step::See(pid, ahead) => {
                    self.symbols.see_with(pid, ahead);
                    read.requests.extend(self.seen(pid));
                }
                Step::Inherit(parent, child) => {
                    self.symbols.inherit(parent, child);
                    read.requests.push(Request::Inherit(parent, child));
                }
                Step::Forget(pid) => {
                    self.symbols.forget(pid);
                    read.requests.push(Request::Forget(pid));
                }
            }
        }
        read
    }

    fn seen(&self, pid: u32) -> Option<Request> {
        Some(Request::See(pid, self.symbols.seen(pid)?))
    }

    /// What all processes execute, for a thread that knows none.
    pub(crate) fn all_seen(&self) -> Vec<Request> {
        self.symbols.processes().filter_map(|pid| self.seen(pid)).collect()
    }

    /// The number of a stack; and the stack, where it is new.
    fn take(&mut self, raw: &RawStack, runtime: Option<&Runtime>) -> (i64, Option<Unnamed>) {
        if self.stored.len() >= MAX_KNOWN || self.by_pointers.len() >= MAX_KNOWN {
            self.by_pointers.clear();
            self.stored.clear();
        }
        let shown = shown_by_pointers(raw);
        if raw.copied.is_empty()
            && let Some(stack_id) = self.by_pointers.get(&shown)
        {
            return (*stack_id, None);
        }
        let unnamed = self.make(raw, runtime);
        let stack_id = unnamed.stack.stack_id;
        if unnamed.stack.complete {
            self.by_pointers.insert(shown, stack_id);
        }
        (stack_id, self.stored.insert(stack_id).then_some(unnamed))
    }

    fn make(&mut self, raw: &RawStack, runtime: Option<&Runtime>) -> Unnamed {
        let Unwound { addresses, stack_pointers, complete } = self.unwind(raw);
        let python = raw.python.iter().map(|frame| Ran {
            function: self.codes.frame(raw.pid, frame, runtime),
            entry: frame.entry,
            foot: Some(frame.foot).filter(|foot| *foot >= raw.sp),
        });
        let python: Vec<Ran> = python.collect();
        let mut stack = Stack { pid: raw.pid, addresses, complete, ..Stack::default() };
        let identity = identity_of(raw, &stack.addresses);
        stack.stack_id = stack_id(raw.pid, &identity, python.iter().map(|ran| &ran.function));
        Unnamed { stack, stack_pointers, python, is_at_return: !raw.sampled }
    }

    /// Takes a stack that was read from outside. Until its names have come its Python frames stand for it, where there
    /// are any.
    pub(crate) fn place(&mut self, outside: Outside) -> Placed {
        let Outside { pid, registers, copied, python } = outside;
        let unwound = registers.map_or_else(Unwound::default, |registers| {
            let at = Registers { ip: registers.ip, sp: registers.sp, bp: registers.bp };
            self.symbols.unwind(pid, at, &copied, &swapped(&registers.swapped), MAX_FRAMES)
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
        let is_new = place.whole.is_some() && self.stored.insert(whole.stack_id);
        let unnamed = is_new.then_some(Unnamed { stack: whole, stack_pointers, python, is_at_return: false });
        let place = (place.stack_id.is_some() || place.whole.is_some()).then_some(place);
        Placed { place, of_python, unnamed }
    }

    /// By the tables of the files the process runs; by frame pointers where the stack was not copied.
    fn unwind(&mut self, raw: &RawStack) -> Unwound {
        if raw.copied.is_empty() {
            return self.believable(raw);
        }
        let registers = Registers { ip: raw.ip, sp: raw.sp, bp: raw.bp };
        let swapped = swapped(&raw.swapped);
        let unwound = self.symbols.unwind(raw.pid, registers, &raw.copied, &swapped, MAX_FRAMES);
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

/// The same program at the same depth with the same frame pointers and lines is at the same place.
fn shown_by_pointers(raw: &RawStack) -> u64 {
    let mut hasher = DefaultHasher::new();
    (raw.pid, raw.ip, raw.sp, &raw.native).hash(&mut hasher);
    for frame in &raw.python {
        (frame.code, frame.instr).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

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
