//! The unit in which data flows from the probes to every reader.

use crate::{
    Annotation, BetweenCalls, Call, CallWindow, Completion, CpuSample, Debt, GpuError, GpuSample, InFlight,
    IoEvent, LaunchCount, LibraryInfo, Loss, MemoryPlace, NcclCall, Neighbour, OomEvent, OpInfo, ProbeStatus,
    Process, ProcessEvent, RawCode, RawStack, RdmaEvent, ServerSample, Slice, Stack, StreamState, TcpEvent,
    ThreadPlace, TracingCost, Wait, WaitEvent,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that arrived in one turn of the agent's loop, as it came.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    pub calls: Vec<Call>,
    pub windows: Vec<CallWindow>,
    pub waits: Vec<Wait>,
    pub process_events: Vec<ProcessEvent>,
    pub processes: Vec<Process>,
    pub stacks: Vec<Stack>,
    /// Not yet in `stacks`.
    #[serde(skip)]
    pub raw_stacks: Vec<RawStack>,
    #[serde(skip)]
    pub raw_codes: Vec<RawCode>,
    pub losses: Vec<Loss>,
    pub libraries: Vec<LibraryInfo>,
    pub nccl_calls: Vec<NcclCall>,
    pub completions: Vec<Completion>,
    pub streams: Vec<StreamState>,
    pub launch_counts: Vec<LaunchCount>,
    /// All calls in flight at one moment, where the batch has looked; nothing where it has not.
    pub in_flight: Option<Vec<InFlight>>,
    pub gpu_samples: Vec<GpuSample>,
    pub gpu_errors: Vec<GpuError>,
    pub rdma_events: Vec<RdmaEvent>,
    pub wait_events: Vec<WaitEvent>,
    pub io_events: Vec<IoEvent>,
    pub tcp_events: Vec<TcpEvent>,
    pub oom_events: Vec<OomEvent>,
    pub neighbours: Vec<Neighbour>,
    pub thread_places: Vec<ThreadPlace>,
    pub memory_places: Vec<MemoryPlace>,
    /// Those met while they waited, by a look now and then.
    pub between_calls: Vec<BetweenCalls>,
    pub cpu_samples: Vec<CpuSample>,
    pub annotations: Vec<Annotation>,
    /// Lines on the annotations' socket that were not taken, by why.
    pub refused_annotations: BTreeMap<String, u64>,
    pub server_samples: Vec<ServerSample>,
    #[serde(skip)]
    pub debts: Vec<Debt>,
    #[serde(rename = "bills")]
    pub tracing_costs: Vec<TracingCost>,
    /// Steps of the governor.
    pub watch_changes: Vec<ProbeStatus>,
    /// Times in which frequent calls were watched, where they were not all the time.
    #[serde(default)]
    pub slices: Vec<Slice>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        *self == Batch::default()
    }
}

/// A run as it came out of the kernel, for replay: tests, and demonstrations where eBPF is not allowed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Where and when it was made, in a sentence.
    pub about: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub ops: Vec<OpInfo>,
    pub batches: Vec<Batch>,
}
