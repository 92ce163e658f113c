//! Threads that called collectives and have come to no call for long: peers may be waiting for them.

use crate::stuck::Place;
use gpuwhy_model::{Batch, BetweenCalls, ProcessEventKind};
use std::collections::HashMap;

/// From then on a thread is silent.
const LONG_NS: u64 = 3_000_000_000;
/// Its stack is read again after so long: it may have gone elsewhere.
const AGAIN_NS: u64 = 5_000_000_000;
/// Stacks read at one look.
const MAX_READS: usize = 16;
/// Threads that are remembered; a job has few that call collectives.
const MAX_THREADS: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Silent {
    /// Threads that call collectives, by process and thread, and when they were last read.
    threads: HashMap<(u32, u32), u64>,
    /// Those that were read, and are told when native frames have their names.
    read: Vec<(BetweenCalls, Place)>,
}

impl Silent {
    pub(crate) fn take(&mut self, batch: &Batch) {
        for event in batch.process_events.iter().filter(|event| event.kind == ProcessEventKind::Exit) {
            self.threads.retain(|(pid, _), _| *pid != event.pid);
        }
        for call in &batch.nccl_calls {
            if self.threads.len() < MAX_THREADS {
                self.threads.entry((call.call.pid, call.call.tid)).or_insert(0);
            }
        }
    }

    /// Those whose stacks are to be read now. `look` lists who is in no call.
    pub(crate) fn find(
        &mut self,
        now_ns: u64,
        look: impl FnOnce() -> Vec<BetweenCalls>,
    ) -> Vec<BetweenCalls> {
        if self.threads.is_empty() {
            return Vec::new();
        }
        let mut found = look();
        found.retain(|seen| {
            let read_ns = self.threads.get_mut(&(seen.pid, seen.tid));
            seen.last_call_ns + LONG_NS < now_ns
                && read_ns.is_some_and(|read_ns| *read_ns + AGAIN_NS < now_ns)
        });
        found.truncate(MAX_READS);
        for seen in &found {
            self.threads.insert((seen.pid, seen.tid), now_ns);
        }
        found
    }

    pub(crate) fn remember(&mut self, seen: BetweenCalls, place: Option<Place>) {
        self.read.extend(place.filter(|place| place.whole.is_some()).map(|place| (seen, place)));
    }

    /// Those whose stacks are known whole by now, as `known` tells; what is only Python is met anyway.
    pub(crate) fn reported(&mut self, known: impl Fn(&Place) -> Option<i64>) -> Vec<BetweenCalls> {
        let (ready, later) =
            std::mem::take(&mut self.read).into_iter().partition(|(_, place)| known(place) == place.whole);
        self.read = later;
        let reported = |(seen, place): (BetweenCalls, Place)| BetweenCalls { stack_id: place.whole, ..seen };
        ready.into_iter().map(reported).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{NcclCall, OpId, Part};

    const SECOND: u64 = 1_000_000_000;

    fn seen(tid: u32, last_call_ns: u64) -> BetweenCalls {
        BetweenCalls {
            time_ns: 0,
            pid: 7,
            tid,
            since_ns: 0,
            part: Part::OnCpu,
            last_call_ns,
            op: OpId::NONE,
            weight_ns: 0,
            stack_id: None,
            thread_pointer: 0,
        }
    }

    fn collective(tid: u32) -> NcclCall {
        let mut call = NcclCall::default();
        (call.call.pid, call.call.tid) = (7, tid);
        call
    }

    #[test]
    fn one_that_called_collectives_is_read_when_it_has_been_silent_and_not_all_the_time() {
        let mut silent = Silent::default();
        silent.take(&Batch { nccl_calls: vec![collective(1), collective(2)], ..Batch::default() });
        // The second goes on, the third never called a collective.
        let mut found = |second: u64| {
            let now_ns = second * SECOND;
            let look = || vec![seen(1, SECOND), seen(2, now_ns - 1), seen(3, SECOND)];
            silent.find(now_ns, look).iter().map(|seen| seen.tid).collect::<Vec<_>>()
        };
        assert_eq!(found(3), [] as [u32; 0]);
        assert_eq!(found(6), [1]);
        assert_eq!(found(7), [] as [u32; 0], "it was just read");
        assert_eq!(found(12), [1]);
    }

    #[test]
    fn one_that_was_read_is_told_once_when_its_names_have_come() {
        let mut silent = Silent::default();
        let place = Place { stack_id: Some(1), whole: Some(2), line: None };
        silent.remember(seen(1, 0), Some(place));
        silent.remember(seen(2, 0), Some(Place { stack_id: Some(1), whole: None, line: None }));
        assert_eq!(silent.reported(|place| place.stack_id), []);
        let reported = silent.reported(|place| place.whole);
        assert_eq!(reported.iter().map(|seen| (seen.tid, seen.stack_id)).collect::<Vec<_>>(), [(1, Some(2))]);
        assert_eq!(silent.reported(|place| place.whole), []);
    }
}
