//! Calls that do not return: where in its program each was made. The kernel takes a stack when a call returns, so these
//! are read from outside, while the call lasts.

use crate::overview::line_of;
use crate::stacks::MOST_FRAMES;
use gpuwhy_ledger::LONG_CALL_NS;
use gpuwhy_model::{Batch, Frame, InFlight, Stack};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Stacks read at one look, a millisecond each at most; the others' turn comes with the next.
const MOST_READ: usize = 64;

/// Process, thread and start.
type Key = (u32, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct Stuck {
    /// Calls whose thread was looked at; nothing where it runs no Python.
    known: HashMap<Key, Option<Place>>,
}

#[derive(Debug)]
struct Place {
    stack_id: i64,
    line: Option<String>,
}

impl Stuck {
    /// Tells where calls that do not return were made. `read` gives the Python frames of a call's thread, nothing where its
    /// process is not known to have any. A thread in a call stays at its line, so what was read is right if the call is
    /// still in flight afterwards, which is what `look_again` is for.
    pub(crate) fn complete(
        &mut self,
        batch: &mut Batch,
        read: impl Fn(&InFlight) -> Option<Vec<Frame>>,
        look_again: impl FnOnce() -> Option<Vec<InFlight>>,
    ) {
        let Some(calls) = &mut batch.in_flight else { return };
        let seen: HashSet<Key> = calls.iter().map(key).collect();
        self.known.retain(|key, _| seen.contains(key));
        let is_new = |call: &&InFlight| {
            call.seen_ns.saturating_sub(call.start_ns) >= LONG_CALL_NS && !self.known.contains_key(&key(call))
        };
        let new = calls.iter().filter(is_new);
        let new: Vec<(Key, Vec<Frame>)> =
            new.filter_map(|call| Some((key(call), read(call)?))).take(MOST_READ).collect();
        if !new.is_empty() {
            let still: HashSet<Key> = look_again().iter().flatten().map(key).collect();
            for (key, frames) in new.into_iter().filter(|(key, _)| still.contains(key)) {
                let place = stack_of(key.0, frames).map(|stack| {
                    let place = Place { stack_id: stack.stack_id, line: line_of(&stack) };
                    batch.stacks.push(stack);
                    place
                });
                self.known.insert(key, place);
            }
        }
        for call in calls {
            if let Some(Some(place)) = self.known.get(&key(call)) {
                call.stack_id = Some(place.stack_id);
                call.line.clone_from(&place.line);
            }
        }
    }
}

fn key(call: &InFlight) -> Key {
    (call.pid, call.tid, call.start_ns)
}

/// Python's frames alone; nothing where there are none.
pub(crate) fn stack_of(pid: u32, mut frames: Vec<Frame>) -> Option<Stack> {
    frames.truncate(MOST_FRAMES);
    let mut hasher = DefaultHasher::new();
    pid.hash(&mut hasher);
    for frame in &frames {
        (&frame.function, &frame.file, frame.line).hash(&mut hasher);
    }
    let stack_id = hasher.finish() as i64;
    (!frames.is_empty()).then_some(Stack { stack_id, pid, frames, ..Stack::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{FrameKind, OpId};
    use std::cell::Cell;

    fn call(tid: u32, seen_ns: u64) -> InFlight {
        InFlight { seen_ns, op: OpId(1), pid: 7, tid, ..InFlight::default() }
    }

    fn frames() -> Vec<Frame> {
        let (function, file) = (Some("forward".into()), Some("/job/train.py".into()));
        vec![Frame { kind: FrameKind::Python, function, file, line: Some(142), ..Frame::default() }]
    }

    fn batch(calls: &[InFlight]) -> Batch {
        Batch { in_flight: Some(calls.to_vec()), ..Batch::default() }
    }

    #[test]
    fn a_long_call_is_read_once_and_its_line_told_again() {
        let (mut stuck, reads) = (Stuck::default(), Cell::new(0));
        let mut look = |calls: &[InFlight]| {
            let mut batch = batch(calls);
            let read = |_: &InFlight| {
                reads.set(reads.get() + 1);
                Some(frames())
            };
            stuck.complete(&mut batch, read, || Some(calls.to_vec()));
            batch
        };
        let early = look(&[call(1, LONG_CALL_NS - 1)]);
        assert_eq!((reads.get(), early.stacks.len()), (0, 0));
        let first = look(&[call(1, LONG_CALL_NS), call(2, 5)]);
        let calls = first.in_flight.unwrap();
        assert_eq!(calls[0].line.as_deref(), Some("train.py:142 forward"));
        assert_eq!((calls[0].stack_id, calls[1].stack_id), (Some(first.stacks[0].stack_id), None));
        let second = look(&[call(1, 2 * LONG_CALL_NS)]);
        assert_eq!(second.in_flight.unwrap()[0].stack_id, calls[0].stack_id);
        assert_eq!((reads.get(), second.stacks.len()), (1, 0));
    }

    #[test]
    fn what_was_read_of_a_call_that_returned_meanwhile_is_not_believed() {
        let mut stuck = Stuck::default();
        let long = [call(1, LONG_CALL_NS)];
        let mut returned = batch(&long);
        // Its thread is in the next call by then.
        let next = InFlight { start_ns: 5, ..call(1, LONG_CALL_NS) };
        stuck.complete(&mut returned, |_| Some(frames()), || Some(vec![next]));
        assert_eq!((returned.in_flight.unwrap()[0].stack_id, returned.stacks.len()), (None, 0));
        let mut unseen = batch(&long);
        stuck.complete(&mut unseen, |_| Some(frames()), || None);
        assert_eq!((unseen.in_flight.unwrap()[0].stack_id, unseen.stacks.len()), (None, 0));
    }

    #[test]
    fn threads_without_python_have_no_stack() {
        let mut stuck = Stuck::default();
        let long = [call(1, LONG_CALL_NS)];
        let mut native = batch(&long);
        stuck.complete(&mut native, |_| Some(Vec::new()), || Some(long.to_vec()));
        assert_eq!((native.in_flight.unwrap()[0].stack_id, native.stacks.len()), (None, 0));
    }
}
