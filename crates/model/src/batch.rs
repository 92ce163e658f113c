//! The unit in which data flows from the probes to every reader.

use crate::{Call, CallWindow, Loss, OpInfo, Process, ProcessEvent, Stack, Wait};
use serde::{Deserialize, Serialize};

/// Everything that arrived in one turn of the agent's loop.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    pub calls: Vec<Call>,
    pub windows: Vec<CallWindow>,
    pub waits: Vec<Wait>,
    pub process_events: Vec<ProcessEvent>,
    pub processes: Vec<Process>,
    pub stacks: Vec<Stack>,
    pub losses: Vec<Loss>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.windows.is_empty()
            && self.waits.is_empty()
            && self.process_events.is_empty()
            && self.processes.is_empty()
            && self.stacks.is_empty()
            && self.losses.is_empty()
    }
}

/// A run as it came out of the kernel, for replay: tests, and demonstrations where eBPF is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Where and when it was made, in a sentence.
    pub about: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub ops: Vec<OpInfo>,
    pub batches: Vec<Batch>,
}
