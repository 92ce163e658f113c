//! Collectives of one process that were submitted, and when the host knew them to be done. A collective's own call
//! only submits it; a later call on its stream tells.

use crate::table::Table;
use crate::timeline::Span;
use gpuwhy_model::{CollectiveWait, Completion, Facts, NcclCall};
use std::collections::VecDeque;

const MAX_STREAMS: usize = 4_096;
/// Collectives waiting on one stream; a job that never asks must not fill the memory.
const MAX_WAITING: usize = 4_096;
/// Completions remembered of a stream, for collectives whose record is late.
const MAX_TOLD: usize = 64;

#[derive(Debug)]
pub(crate) struct Pending {
    pid: u32,
    streams: Table<u32, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    waiting: VecDeque<Waiting>,
    reported: VecDeque<Completion>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    mark: u64,
    start_ns: u64,
    tid: u32,
}

impl Waiting {
    fn is_done_by(&self, completion: &Completion) -> bool {
        self.mark <= completion.done && self.start_ns <= completion.time_ns
    }

    fn done(&self, pid: u32, completion: &Completion) -> CollectiveWait {
        CollectiveWait {
            pid,
            tid: self.tid,
            start_ns: self.start_ns,
            completed_ns: completion.time_ns,
            wait_ns: completion.wait_ns,
            waited_in: completion.op,
        }
    }
}

impl Pending {
    pub(crate) fn new(pid: u32) -> Self {
        Pending { pid, streams: Table::new(MAX_STREAMS) }
    }

    pub(crate) fn submitted(&mut self, nccl: &NcclCall, facts: &mut Facts) {
        if nccl.stream_slot == 0 {
            return;
        }
        let stream = self.streams.get_or_insert_with(nccl.stream_slot, Stream::default);
        let Span { start_ns, .. } = Span::of(&nccl.call);
        let waiting = Waiting { mark: nccl.mark, start_ns, tid: nccl.call.tid };
        let reported = stream.reported.iter().filter(|completion| waiting.is_done_by(completion));
        if let Some(first) = reported.min_by_key(|completion| completion.time_ns) {
            facts.collective_waits.push(waiting.done(self.pid, first));
            return;
        }
        if stream.waiting.len() == MAX_WAITING {
            stream.waiting.pop_front();
        }
        stream.waiting.push_back(waiting);
    }

    pub(crate) fn completed(&mut self, completion: &Completion, facts: &mut Facts) {
        let stream = self.streams.get_or_insert_with(completion.stream_slot, Stream::default);
        let pid = self.pid;
        stream.waiting.retain(|waiting| {
            let done = waiting.is_done_by(completion);
            if done {
                facts.collective_waits.push(waiting.done(pid, completion));
            }
            !done
        });
        if stream.reported.len() == MAX_TOLD {
            stream.reported.pop_front();
        }
        stream.reported.push_back(completion.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PID, nccl, op};

    fn submit(mark: u64, end_ns: u64) -> NcclCall {
        NcclCall { mark, ..nccl("ncclAllReduce", end_ns) }
    }

    fn completion(done: u64, time_ns: u64) -> Completion {
        let op = op("cudaStreamSynchronize");
        Completion { time_ns, pid: PID, tid: PID, stream_slot: 3, done, op, wait_ns: 50 }
    }

    fn waits(facts: &Facts) -> Vec<(u64, u64)> {
        facts.collective_waits.iter().map(|wait| (wait.start_ns, wait.completed_ns)).collect()
    }

    #[test]
    fn each_is_completed_once_by_the_first_that_tells() {
        let (mut pending, mut facts) = (Pending::new(PID), Facts::default());
        for (mark, end_ns) in [(1, 11), (2, 21), (4, 31)] {
            pending.submitted(&submit(mark, end_ns), &mut facts);
        }
        pending.completed(&Completion { stream_slot: 9, ..completion(9, 90) }, &mut facts);
        assert!(facts.collective_waits.is_empty());
        pending.completed(&completion(3, 100), &mut facts);
        pending.completed(&completion(4, 200), &mut facts);
        pending.completed(&completion(9, 300), &mut facts);
        assert_eq!(waits(&facts), [(10, 100), (20, 100), (30, 200)]);
        let first = &facts.collective_waits[0];
        assert_eq!((first.wait_ns, first.waited_in), (50, op("cudaStreamSynchronize")));
    }

    #[test]
    fn a_collective_may_come_after_its_completion() {
        let (mut pending, mut facts) = (Pending::new(PID), Facts::default());
        pending.completed(&completion(3, 5), &mut facts);
        pending.completed(&completion(3, 100), &mut facts);
        pending.completed(&completion(9, 200), &mut facts);
        pending.submitted(&submit(2, 11), &mut facts);
        pending.completed(&completion(9, 300), &mut facts);
        assert_eq!(waits(&facts), [(10, 100)]);
    }

    #[test]
    fn the_list_is_bounded() {
        let (mut pending, mut facts) = (Pending::new(PID), Facts::default());
        for i in 0..MAX_WAITING as u64 + 5 {
            pending.submitted(&submit(i, 10 + i), &mut facts);
        }
        pending.completed(&completion(u64::MAX, u64::MAX), &mut facts);
        assert_eq!(facts.collective_waits.len(), MAX_WAITING);
        assert_eq!(facts.collective_waits[0].start_ns, 14);
    }
}
