//! The ledger: batches in, facts out.

use crate::cgroups::Cgroups;
use crate::collectives::{collective, is_work, went_well};
use crate::copies::copies;
use crate::graphs::Kind;
use crate::in_flight::LongCalls;
use crate::lives::Lives;
use crate::names::Names;
use crate::ops::Ops;
use crate::process::Taken;
use crate::streams::Streams;
use crate::timeline::{LATE_NS, Moment, Span, What, newest_ns, timeline};
use gpuwhy_model::{Batch, Call, Facts, MemoryFailure, NcclCall, OpInfo, Role};

/// Calls held back until what they are about is known, if it ever is; each batch tries them again.
const MAX_HELD: usize = 4_096;

/// What the kernel's records say about kernels, graphs, memory, collectives, streams and copies, kept over time.
#[derive(Debug)]
pub struct Ledger {
    ops: Ops,
    names: Names,
    lives: Lives,
    streams: Streams,
    cgroups: Cgroups,
    long_calls: LongCalls,
    held: Vec<Call>,
    unknown_frees: u64,
    newest_ns: u64,
}

impl Ledger {
    pub fn new(ops: &[OpInfo]) -> Self {
        Ledger {
            ops: Ops::new(ops),
            names: Names::new(),
            lives: Lives::new(),
            streams: Streams::new(),
            cgroups: Cgroups::new(),
            long_calls: LongCalls::default(),
            held: Vec::new(),
            unknown_frees: 0,
            newest_ns: 0,
        }
    }

    /// Takes a batch and tells what it changed; blame is not the ledger's.
    pub fn take(&mut self, batch: &Batch) -> Facts {
        let mut facts = Facts::default();
        self.newest_ns = self.newest_ns.max(newest_ns(batch));
        self.cgroups.learn(batch);
        self.take_in_order(batch, &mut facts);
        self.take_sums(batch, &mut facts);
        if let Some(seen) = &batch.in_flight {
            self.long_calls.look(seen, self.newest_ns, &self.lives, &mut facts);
        }
        self.lives.emit(&mut facts, self.newest_ns);
        facts
    }

    /// Launched functions that no call has named, each told once.
    pub fn unnamed(&mut self) -> Vec<(u32, u64)> {
        self.lives.take_unnamed()
    }

    /// The name of a function, found elsewhere; what calls have told stays.
    pub fn name(&mut self, pid: u32, handle: u64, mangled: &str) {
        if let Some(process) = self.lives.latest(pid).filter(|_| !mangled.is_empty()) {
            process.kernels.named_elsewhere(handle, &self.names.of(mangled), self.newest_ns);
        }
    }

    /// The functions of a running process that have a name: handle and mangled name.
    pub fn known_names(&self, pid: u32) -> impl Iterator<Item = (u64, &str)> {
        self.lives.running(pid).into_iter().flat_map(|process| process.kernels.known_names())
    }

    /// How often something was freed that nobody was seen to allocate: it is older than the trace.
    pub fn unknown_frees(&self) -> u64 {
        let held = self.held.iter().filter(|call| is_free(self.ops.get(call.op).role)).count();
        self.unknown_frees + held as u64
    }

    /// What has an effect on things with a state, each effect in its time.
    fn take_in_order(&mut self, batch: &Batch, facts: &mut Facts) {
        let held = std::mem::take(&mut self.held);
        let moments = timeline(batch, &held, &self.ops);
        for Moment { at_ns, what, .. } in moments {
            match what {
                What::Call(call) => self.take_call(call, facts, true),
                What::Again(call) => self.take_call(call, facts, false),
                What::Collective(nccl) => self.take_collective(nccl, facts),
                What::End(pid) => self.end_process(pid, at_ns, facts),
            }
        }
        let excess = self.held.len().saturating_sub(MAX_HELD);
        for call in self.held.drain(..excess) {
            self.unknown_frees += u64::from(is_free(self.ops.get(call.op).role));
        }
    }

    fn take_call(&mut self, call: &Call, facts: &mut Facts, first_time: bool) {
        let op = self.ops.get(call.op);
        let process = self.lives.at(call.pid, call.start_ns);
        let taken = match process {
            Some(process) => {
                let taken = process.take(call, op, &mut self.names);
                if first_time {
                    process.note_cold_start(call, op, facts);
                }
                taken
            }
            // Its process ended long ago.
            None => Taken::Done,
        };
        match taken {
            Taken::Done => {}
            Taken::NotYet if Span::of(call).end_ns.saturating_add(LATE_NS) >= self.newest_ns => {
                self.held.push(call.clone());
            }
            Taken::NotYet => self.unknown_frees += u64::from(is_free(op.role)),
            Taken::NoMemory => facts.memory_failures.push(self.memory_failure(call)),
        }
    }

    fn take_collective(&mut self, nccl: &NcclCall, facts: &mut Facts) {
        let (call, event) = (&nccl.call, self.ops.get(nccl.call.op).event.as_str());
        let process = self.lives.at(call.pid, call.start_ns);
        facts.collectives.push(collective(nccl, event));
        if !is_work(event) || !went_well(call.ret) {
            return;
        }
        match process {
            Some(process) if call.capture != 0 => process.graphs.node(call, Kind::Collective),
            Some(process) => process.pending.submitted(nccl, facts),
            None => {}
        }
    }

    fn end_process(&mut self, pid: u32, at_ns: u64, facts: &mut Facts) {
        self.lives.end(pid, at_ns);
        self.long_calls.process_ended(pid, at_ns, facts);
    }

    /// What the kernel has summed itself.
    fn take_sums(&mut self, batch: &Batch, facts: &mut Facts) {
        let mut completions: Vec<_> = batch.completions.iter().collect();
        completions.sort_by_key(|completion| completion.time_ns);
        for completion in completions {
            if let Some(process) = self.lives.at(completion.pid, completion.time_ns) {
                process.pending.completed(completion, facts);
            }
        }
        let mut counts: Vec<_> = batch.launch_counts.iter().collect();
        counts.sort_by_key(|count| count.time_ns);
        for count in counts {
            self.lives.counted(count).launched(count);
        }
        let mut streams: Vec<_> = batch.streams.iter().collect();
        streams.sort_by_key(|state| state.time_ns);
        for state in streams {
            self.streams.take(state, facts);
        }
        facts.copies = copies(&batch.windows, &self.cgroups);
    }

    fn memory_failure(&self, call: &Call) -> MemoryFailure {
        let (live_bytes, holders) = self.lives.holders();
        MemoryFailure {
            time_ns: Span::of(call).end_ns,
            pid: call.pid,
            tid: call.tid,
            op: call.op,
            bytes: call.bytes,
            ret: call.ret,
            gpu: call.device,
            stack_id: call.stack_id,
            live_bytes,
            holders,
        }
    }
}

fn is_free(role: Role) -> bool {
    matches!(role, Role::Free | Role::UnregisterHost)
}

#[cfg(test)]
mod memory_model;
#[cfg(test)]
mod tests;
