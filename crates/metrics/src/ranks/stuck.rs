//! Calls that do not return and ranks that do not come, with where in the code.

use super::lines::Lines;
use gpuwhy_model::{Batch, CallInFlight, Facts, OpId, Part};
use std::collections::HashMap;

/// From then on a call or a silence is worth telling.
const LONG_NS: u64 = 3_000_000_000;
/// It is told again after so long: the fleet may have missed it.
const AGAIN_NS: u64 = 5_000_000_000;
/// A stack with native frames stands for so long.
const WHOLE_FOR_NS: u64 = 10_000_000_000;

/// A rank that hangs, or that others may be waiting for.
#[derive(Debug, Clone)]
pub(super) struct StuckRank {
    /// The call it is in; nothing where it is in none.
    pub(super) call: Option<CallInFlight>,
    /// Else what its thread does.
    pub(super) does: Option<Part>,
    pub(super) since_ns: u64,
    /// Innermost first.
    pub(super) stack: Vec<String>,
}

/// When, at what, where.
#[derive(Debug, Clone, Copy)]
struct Seen {
    time_ns: u64,
    part: Part,
    stack_id: Option<i64>,
    /// With native frames.
    is_whole: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stuck {
    /// Calls in flight by process and thread.
    calls: HashMap<(u32, u32), CallInFlight>,
    /// The last time a thread of the process was met between calls.
    seen: HashMap<u32, Seen>,
    /// When a process was told of, and with how many frames.
    reported: HashMap<u32, (u64, usize)>,
}

impl Stuck {
    pub(super) fn take(&mut self, batch: &Batch, facts: &Facts) {
        for call in &facts.in_flight {
            match call.ended_ns {
                Some(_) => drop(self.calls.remove(&(call.pid, call.tid))),
                None => drop(self.calls.insert((call.pid, call.tid), call.clone())),
            }
        }
        for seen in batch.between_calls.iter().filter(|seen| seen.is_between_calls()) {
            // The main thread says most. A stack that was read for its own sake has native frames too, and is not replaced by
            // one that was met in passing while it is new.
            let is_main = seen.tid == seen.pid || !self.seen.contains_key(&seen.pid);
            let is_whole = seen.weight_ns == 0;
            let is_new = |known: &Seen| known.is_whole && known.time_ns + WHOLE_FOR_NS > seen.time_ns;
            if is_main && (is_whole || !self.seen.get(&seen.pid).is_some_and(is_new)) {
                let (time_ns, part, stack_id) = (seen.time_ns, seen.part, seen.stack_id);
                self.seen.insert(seen.pid, Seen { time_ns, part, stack_id, is_whole });
            }
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.calls.retain(|(of, _), _| *of != pid);
        self.seen.remove(&pid);
        self.reported.remove(&pid);
    }

    /// `silent`: since when the process has come to no collective.
    pub(super) fn of(
        &mut self,
        pid: u32,
        silent: Option<u64>,
        lines: &Lines,
        now_ns: u64,
    ) -> Option<StuckRank> {
        let is_long = |since: u64| since + LONG_NS < now_ns;
        let mut calls: Vec<&CallInFlight> = self
            .calls
            .iter()
            .filter(|((of, _), call)| *of == pid && is_long(call.start_ns))
            .map(|(_, call)| call)
            .collect();
        calls.sort_by_key(|call| (call.comm_id_hash.is_none(), call.start_ns));
        let found = match calls.first() {
            Some(call) => Some(StuckRank {
                call: Some((*call).clone()),
                does: None,
                since_ns: call.start_ns,
                stack: stack(lines, call.stack_id, call.line.as_ref()),
            }),
            None => silent.filter(|since| is_long(*since)).map(|since_ns| {
                let seen = self.seen.get(&pid).filter(|seen| seen.time_ns > since_ns);
                StuckRank {
                    call: None,
                    does: seen.map(|seen| seen.part),
                    since_ns,
                    stack: seen.map_or_else(Vec::new, |seen| stack(lines, seen.stack_id, None)),
                }
            }),
        };
        let Some(found) = found else {
            self.reported.remove(&pid);
            return None;
        };
        // Names of native frames come later than the lines of Python.
        let frames = found.stack.len();
        if self
            .reported
            .get(&pid)
            .is_some_and(|reported| now_ns < reported.0 + AGAIN_NS && frames <= reported.1)
        {
            return None;
        }
        self.reported.insert(pid, (now_ns, frames));
        Some(found)
    }
}

fn stack(lines: &Lines, stack_id: Option<i64>, line: Option<&String>) -> Vec<String> {
    let known = stack_id.and_then(|id| lines.all(id)).map(<[String]>::to_vec);
    known.unwrap_or_else(|| line.into_iter().cloned().collect())
}

/// For people and for the fleet.
pub(super) fn op_name<'a>(stuck: &StuckRank, names: &'a HashMap<OpId, String>) -> &'a str {
    let of_call = stuck.call.as_ref().and_then(|call| names.get(&call.op));
    match (of_call, stuck.does) {
        (Some(name), _) => name,
        (None, Some(part)) => part.name(),
        (None, None) => "no call",
    }
}
