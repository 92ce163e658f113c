//! Calls that do not return and ranks that do not come, with where in the code.

use gpuwhy_model::{Batch, CallInFlight, Facts, Frame, FrameKind, OpId, Reason, Stack};
use std::collections::{HashMap, VecDeque};

/// From then on a call or a silence is worth telling.
const LONG_NS: u64 = 3_000_000_000;
/// It is told again after so long: the fleet may have missed it.
const AGAIN_NS: u64 = 5_000_000_000;
/// Stacks that are remembered.
const MOST_STACKS: usize = 2_048;
const MOST_FRAMES: usize = 64;

/// A rank that hangs, or that others may be waiting for.
#[derive(Debug, Clone)]
pub(super) struct StuckRank {
    /// The call it is in; nothing where it is in none.
    pub(super) call: Option<CallInFlight>,
    /// Else what its thread waits for.
    pub(super) waits: Option<Reason>,
    pub(super) since_ns: u64,
    /// Innermost first.
    pub(super) stack: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Stuck {
    /// Calls in flight by process and thread.
    calls: HashMap<(u32, u32), CallInFlight>,
    /// The last time a thread of the process was met while it waited: when, since when, for what, where.
    waits: HashMap<u32, (u64, u64, Reason, Option<i64>)>,
    stacks: HashMap<i64, Vec<String>>,
    order: VecDeque<i64>,
    told: HashMap<u32, u64>,
}

impl Stuck {
    pub(super) fn take(&mut self, batch: &Batch, facts: &Facts) {
        batch.stacks.iter().for_each(|stack| self.remember(stack));
        for call in &facts.in_flight {
            match call.ended_ns {
                Some(_) => drop(self.calls.remove(&(call.pid, call.tid))),
                None => drop(self.calls.insert((call.pid, call.tid), call.clone())),
            }
        }
        for waiting in &batch.waiting {
            // The main thread says most.
            if waiting.tid == waiting.pid || !self.waits.contains_key(&waiting.pid) {
                let met = (waiting.time_ns, waiting.since_ns, waiting.reason, waiting.stack_id);
                self.waits.insert(waiting.pid, met);
            }
        }
    }

    fn remember(&mut self, stack: &Stack) {
        let lines: Vec<String> = stack.frames.iter().filter_map(line_of).take(MOST_FRAMES).collect();
        if lines.is_empty() {
            return;
        }
        if self.stacks.insert(stack.stack_id, lines).is_none() {
            self.order.push_back(stack.stack_id);
        }
        while self.order.len() > MOST_STACKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.stacks.remove(&oldest);
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.calls.retain(|(of, _), _| *of != pid);
        self.waits.remove(&pid);
        self.told.remove(&pid);
    }

    /// `silent`: since when the process has come to no collective.
    pub(super) fn of(&mut self, pid: u32, silent: Option<u64>, now_ns: u64) -> Option<StuckRank> {
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
                waits: None,
                since_ns: call.start_ns,
                stack: self.lines(call.stack_id, call.line.as_ref()),
            }),
            None => silent.filter(|since| is_long(*since)).map(|since_ns| {
                let met = self.waits.get(&pid).filter(|(met_ns, ..)| *met_ns > since_ns);
                StuckRank {
                    call: None,
                    waits: met.map(|(_, _, reason, _)| *reason),
                    since_ns,
                    stack: met.map_or_else(Vec::new, |(.., stack_id)| self.lines(*stack_id, None)),
                }
            }),
        };
        let Some(found) = found else {
            self.told.remove(&pid);
            return None;
        };
        if self.told.get(&pid).is_some_and(|told| now_ns < told + AGAIN_NS) {
            return None;
        }
        self.told.insert(pid, now_ns);
        Some(found)
    }

    fn lines(&self, stack_id: Option<i64>, line: Option<&String>) -> Vec<String> {
        let known = stack_id.and_then(|id| self.stacks.get(&id)).cloned();
        known.unwrap_or_else(|| line.into_iter().cloned().collect())
    }
}

/// As `train.py:142 forward`, or `cudaStreamSynchronize (libcudart.so.13)`.
fn line_of(frame: &Frame) -> Option<String> {
    let function = frame.function.as_deref();
    match (frame.kind, &frame.file, frame.line) {
        (FrameKind::Python, Some(file), Some(line)) => {
            Some(format!("{file}:{line} {}", function.unwrap_or("?")))
        }
        _ => function.map(|function| {
            match frame.module.rsplit('/').next().filter(|module| !module.is_empty()) {
                Some(module) => format!("{function} ({module})"),
                None => function.to_string(),
            }
        }),
    }
}

/// For people and for the fleet.
pub(super) fn op_name<'a>(stuck: &StuckRank, names: &'a HashMap<OpId, String>) -> &'a str {
    let of_call = stuck.call.as_ref().and_then(|call| names.get(&call.op));
    match (of_call, stuck.waits) {
        (Some(name), _) => name,
        (None, Some(reason)) => reason.name(),
        (None, None) => "no call",
    }
}
