//! Calls that do not return: where in its program each was made. The kernel takes a stack when a call returns, so these
//! are read from outside, while the call lasts.

use gpuwhy_ledger::LONG_CALL_NS;
use gpuwhy_model::{Batch, InFlight};
use std::collections::{HashMap, HashSet};

/// Stacks read at one look, a millisecond each at most; the others' turn comes with the next.
const MAX_READS: usize = 64;

/// Process, thread and start.
type Key = (u32, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct Stuck {
    /// Calls whose thread was looked at; nothing where it runs no Python.
    known: HashMap<Key, Option<Place>>,
}

/// Where a thread is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its Python frames.
    pub(crate) stack_id: Option<i64>,
    /// With native frames, once those have names.
    pub(crate) whole: Option<i64>,
    /// Of Python.
    pub(crate) line: Option<String>,
}

impl Stuck {
    /// Tells where calls that do not return were made. `read` gives the stack of a call's thread, nothing where it cannot
    /// be read; `emit` makes it known. A thread in a call stays where it is, so what was read is right if the call is
    /// still in flight afterwards, which is what `look_again` is for.
    pub(crate) fn complete<Read>(
        &mut self,
        batch: &mut Batch,
        mut read: impl FnMut(&InFlight) -> Option<Read>,
        look_again: impl FnOnce() -> Option<Vec<InFlight>>,
        mut emit: impl FnMut(Read, &mut Batch) -> Option<Place>,
    ) {
        let Some(mut calls) = batch.in_flight.take() else { return };
        let seen: HashSet<Key> = calls.iter().map(key).collect();
        self.known.retain(|key, _| seen.contains(key));
        let is_new = |call: &&InFlight| {
            call.seen_ns.saturating_sub(call.start_ns) >= LONG_CALL_NS && !self.known.contains_key(&key(call))
        };
        let new = calls.iter().filter(is_new);
        let new: Vec<(Key, Read)> =
            new.filter_map(|call| Some((key(call), read(call)?))).take(MAX_READS).collect();
        if !new.is_empty() {
            let still: HashSet<Key> = look_again().iter().flatten().map(key).collect();
            for (key, read) in new.into_iter().filter(|(key, _)| still.contains(key)) {
                self.known.insert(key, emit(read, batch));
            }
        }
        for call in &mut calls {
            if let Some(Some(place)) = self.known.get(&key(call)) {
                call.line.clone_from(&place.line);
            }
        }
        batch.in_flight = Some(calls);
    }

    /// The stacks of calls, as far as they are known by now.
    pub(crate) fn report_stacks(&self, batch: &mut Batch, known: impl Fn(&Place) -> Option<i64>) {
        for call in batch.in_flight.iter_mut().flatten() {
            if let Some(Some(place)) = self.known.get(&key(call)) {
                call.stack_id = known(place);
            }
        }
    }
}

fn key(call: &InFlight) -> Key {
    (call.pid, call.tid, call.start_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::OpId;
    use std::cell::Cell;

    fn call(tid: u32, seen_ns: u64) -> InFlight {
        InFlight { seen_ns, op: OpId(1), pid: 7, tid, ..InFlight::default() }
    }

    fn place(stack_id: i64, _: &mut Batch) -> Option<Place> {
        Some(Place { stack_id: Some(stack_id), whole: None, line: Some("train.py:142 forward".into()) })
    }

    fn batch(calls: &[InFlight]) -> Batch {
        Batch { in_flight: Some(calls.to_vec()), ..Batch::default() }
    }

    #[test]
    fn a_long_call_is_read_once_and_its_line_told_again() {
        let (mut stuck, reads) = (Stuck::default(), Cell::new(0));
        let mut look = |calls: &[InFlight]| {
            let mut batch = batch(calls);
            let read = |call: &InFlight| {
                reads.set(reads.get() + 1);
                Some(i64::from(call.tid))
            };
            stuck.complete(&mut batch, read, || Some(calls.to_vec()), place);
            stuck.report_stacks(&mut batch, |place| place.stack_id);
            batch.in_flight.unwrap()
        };
        look(&[call(1, LONG_CALL_NS - 1)]);
        assert_eq!(reads.get(), 0);
        let first = look(&[call(1, LONG_CALL_NS), call(2, 5)]);
        assert_eq!(first[0].line.as_deref(), Some("train.py:142 forward"));
        assert_eq!((first[0].stack_id, first[1].stack_id), (Some(1), None));
        let second = look(&[call(1, 2 * LONG_CALL_NS)]);
        assert_eq!((reads.get(), second[0].stack_id), (1, Some(1)));
    }

    #[test]
    fn what_was_read_of_a_call_that_returned_meanwhile_is_not_believed() {
        let mut stuck = Stuck::default();
        let long = [call(1, LONG_CALL_NS)];
        let mut returned = batch(&long);
        // Its thread is in the next call by then.
        let next = InFlight { start_ns: 5, ..call(1, LONG_CALL_NS) };
        stuck.complete(&mut returned, |_| Some(1), || Some(vec![next]), place);
        stuck.report_stacks(&mut returned, |place| place.stack_id);
        let call = &returned.in_flight.unwrap()[0];
        assert_eq!((call.stack_id, &call.line, returned.stacks.len()), (None, &None, 0));
        let mut unseen = batch(&long);
        stuck.complete(&mut unseen, |_| Some(1), || None, place);
        stuck.report_stacks(&mut unseen, |place| place.stack_id);
        let call = &unseen.in_flight.unwrap()[0];
        assert_eq!((call.stack_id, &call.line, unseen.stacks.len()), (None, &None, 0));
    }
}
