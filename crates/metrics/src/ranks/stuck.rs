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
struct Met {
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
    met: HashMap<u32, Met>,
    /// When a process was told of, and with how many frames.
    told: HashMap<u32, (u64, usize)>,
}

impl Stuck {
    pub(super) fn take(&mut self, batch: &Batch, facts: &Facts) {
        for call in &facts.in_flight {
            match call.ended_ns {
                Some(_) => drop(self.calls.remove(&(call.pid, call.tid))),
                None => drop(self.calls.insert((call.pid, call.tid), call.clone())),
            }
        }
        for met in batch.between_calls.iter().filter(|met| met.is_between_calls()) {
            // The main thread says most. A stack that was read for its own sake has native frames too, and is not replaced by
            // one that was met in passing while it is new.
            let is_main = met.tid == met.pid || !self.met.contains_key(&met.pid);
            let is_whole = met.weight_ns == 0;
            let is_new = |known: &Met| known.is_whole && known.time_ns + WHOLE_FOR_NS > met.time_ns;
            if is_main && (is_whole || !self.met.get(&met.pid).is_some_and(is_new)) {
                let (time_ns, part, stack_id) = (met.time_ns, met.part, met.stack_id);
                self.met.insert(met.pid, Met { time_ns, part, stack_id, is_whole });
            }
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.calls.retain(|(of, _), _| *of != pid);
        self.met.remove(&pid);
        self.told.remove(&pid);
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
                let met = self.met.get(&pid).filter(|met| met.time_ns > since_ns);
                StuckRank {
                    call: None,
                    does: met.map(|met| met.part),
                    since_ns,
                    stack: met.map_or_else(Vec::new, |met| stack(lines, met.stack_id, None)),
                }
            }),
        };
        let Some(found) = found else {
            self.told.remove(&pid);
            return None;
        };
        // Names of native frames come later than the lines of Python.
        let frames = found.stack.len();
        if self.told.get(&pid).is_some_and(|told| now_ns < told.0 + AGAIN_NS && frames <= told.1) {
            return None;
        }
        self.told.insert(pid, (now_ns, frames));
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
