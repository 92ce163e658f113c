//! Calls that do not return: told again at every look, and once more when they are over.

use crate::lives::Lives;
use gpuwhy_model::{CallInFlight, Facts, InFlight};
use std::collections::BTreeMap;

/// Most waits are shorter; a call that lasts longer is worth a row before it returns.
pub const LONG_CALL_NS: u64 = 1_000_000_000;
/// Rows open at once.
const MAX_ROWS: usize = 16_384;

/// Process, thread and start.
type Key = (u32, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct LongCalls {
    open: BTreeMap<Key, CallInFlight>,
}

impl LongCalls {
    /// A look at all calls in flight.
    pub(crate) fn look(&mut self, seen: &[InFlight], newest_ns: u64, lives: &Lives, facts: &mut Facts) {
        let looked_ns = seen.iter().map(|call| call.seen_ns).max().unwrap_or(newest_ns);
        let mut before = std::mem::take(&mut self.open);
        for call in seen {
            let key = (call.pid, call.tid, call.start_ns);
            let long =
                call.seen_ns.saturating_sub(call.start_ns) >= LONG_CALL_NS || before.contains_key(&key);
            // A process that has ended leaves its calls behind.
            if !long || self.open.len() >= MAX_ROWS || lives.had_ended(call.pid, call.start_ns) {
                continue;
            }
            before.remove(&key);
            let row = row(call);
            facts.in_flight.push(row.clone());
            self.open.insert(key, row);
        }
        for row in before.into_values() {
            let ended_ns = lives.ended_ns(row.pid, row.start_ns).unwrap_or(looked_ns);
            end(row, ended_ns, facts);
        }
    }

    pub(crate) fn process_ended(&mut self, pid: u32, at_ns: u64, facts: &mut Facts) {
        let of_pid = (pid, 0, 0)..=(pid, u32::MAX, u64::MAX);
        let ended = |(key, row): (&Key, &CallInFlight)| (row.start_ns <= at_ns).then_some(*key);
        let ended: Vec<Key> = self.open.range(of_pid).filter_map(ended).collect();
        for key in ended {
            if let Some(row) = self.open.remove(&key) {
                end(row, at_ns, facts);
            }
        }
    }
}

fn end(mut row: CallInFlight, ended_ns: u64, facts: &mut Facts) {
    row.ended_ns = Some(ended_ns.max(row.start_ns));
    row.seen_ns = row.seen_ns.min(ended_ns.max(row.start_ns));
    facts.in_flight.push(row);
}

fn row(call: &InFlight) -> CallInFlight {
    CallInFlight {
        start_ns: call.start_ns,
        pid: call.pid,
        tid: call.tid,
        op: call.op,
        stream: call.stream,
        handle: call.handle,
        comm_id_hash: call.comm_id_hash,
        rank: call.rank,
        nranks: call.nranks,
        seq: call.seq,
        seen_ns: call.seen_ns,
        ended_ns: None,
        stack_id: call.stack_id,
        line: call.line.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PID, op};

    const S: u64 = 1_000_000_000;

    fn call(tid: u32, start_ns: u64, seen_ns: u64) -> InFlight {
        InFlight {
            seen_ns,
            start_ns,
            op: op("ncclAllReduce"),
            pid: PID,
            tid,
            stream: 0,
            handle: 0xc0,
            communicator: 5,
            comm_id_hash: Some(1),
            rank: Some(3),
            nranks: Some(8),
            seq: Some(9),
            ..InFlight::default()
        }
    }

    fn rows(facts: &mut Facts) -> Vec<(u32, u64, Option<u64>, Option<i32>)> {
        let rows = std::mem::take(&mut facts.in_flight);
        rows.iter().map(|row| (row.tid, row.seen_ns, row.ended_ns, row.rank)).collect()
    }

    #[test]
    fn long_calls_are_told_until_they_are_over() {
        let (mut long, lives, mut facts) = (LongCalls::default(), Lives::new(), Facts::default());
        let mut look = |long: &mut LongCalls, seen: &[InFlight], newest_ns| {
            long.look(seen, newest_ns, &lives, &mut facts);
            rows(&mut facts)
        };
        let seen = [call(1, S, 2 * S), call(2, S + 1, 2 * S)];
        assert_eq!(look(&mut long, &seen, 2 * S), [(1, 2 * S, None, Some(3))]);
        let seen = [call(1, S, 3 * S), call(2, S + 1, 3 * S)];
        let expected = [(1, 3 * S, None, Some(3)), (2, 3 * S, None, Some(3))];
        assert_eq!(look(&mut long, &seen, 3 * S), expected);
        let expected = [(2, 4 * S, None, Some(3)), (1, 3 * S, Some(4 * S), Some(3))];
        assert_eq!(look(&mut long, &[call(2, S + 1, 4 * S)], 4 * S), expected);
        assert_eq!(look(&mut long, &[], 5 * S), [(2, 4 * S, Some(5 * S), Some(3))]);
        assert!(look(&mut long, &[], 6 * S).is_empty());
    }

    #[test]
    fn they_end_with_their_process() {
        let (mut long, mut lives, mut facts) = (LongCalls::default(), Lives::new(), Facts::default());
        long.look(&[call(1, S, 3 * S)], 3 * S, &lives, &mut facts);
        rows(&mut facts);
        lives.end(PID, 4 * S);
        long.process_ended(PID, 4 * S, &mut facts);
        assert_eq!(rows(&mut facts), [(1, 3 * S, Some(4 * S), Some(3))]);
        // What the kernel still has of it is no news; a new process with its number is.
        let seen = [call(1, S, 6 * S), call(1, 4 * S + 1, 6 * S)];
        long.look(&seen, 6 * S, &lives, &mut facts);
        assert_eq!(rows(&mut facts), [(1, 6 * S, None, Some(3))]);
    }
}
