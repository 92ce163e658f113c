//! What the ledger concludes from the kernel's records: rows of the tables users read.

use crate::{BlameRow, Call, Direction, OpId};
use serde::{Deserialize, Serialize};

/// Everything concluded from one batch. Rows with the same key complete or replace earlier ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub blame: Vec<BlameRow>,
    pub collectives: Vec<Collective>,
    pub collective_waits: Vec<CollectiveWait>,
    pub kernels: Vec<Kernel>,
    pub graphs: Vec<Graph>,
    pub graph_nodes: Vec<GraphNode>,
    pub allocations: Vec<Allocation>,
    pub memory: Vec<MemoryUse>,
    pub memory_failures: Vec<MemoryFailure>,
    pub cold_starts: Vec<ColdStart>,
    pub gpu_times: Vec<GpuTime>,
    pub copies: Vec<CopyWindow>,
    pub in_flight: Vec<CallInFlight>,
}

/// A row of `nccl_events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    pub call: Call,
    /// As `ALL_REDUCE`.
    pub event: String,
    pub comm: u64,
    pub comm_id_hash: Option<u64>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    pub seq: Option<u64>,
    pub count: Option<u64>,
    pub bytes: Option<u64>,
    pub datatype: Option<String>,
    pub reduce_op: Option<String>,
    pub peer: Option<i32>,
    pub grouped: bool,
}

/// When a collective was known to be done; completes the row of `nccl_events` with that pid, tid and start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveWait {
    pub pid: u32,
    pub tid: u32,
    pub start_ns: u64,
    pub completed_ns: u64,
    /// How long the host waited in the call that told.
    pub wait_ns: u64,
    pub waited_in: OpId,
}

/// A row of `kernels`, by pid and handle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kernel {
    pub pid: u32,
    pub handle: u64,
    /// Demangled; empty where nobody has told.
    pub name: String,
    pub mangled: String,
    pub module: String,
    pub first_ns: u64,
    /// All launches so far, and the host's time in them.
    pub launches: u64,
    pub launch_ns: u64,
    /// When they were last seen to have risen.
    pub last_ns: u64,
}

/// A row of `graphs`, by pid, graph and creation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Graph {
    pub pid: u32,
    /// 0 where it was made before the trace: then only its executable is known.
    pub graph: u64,
    pub exec: Option<u64>,
    pub created_ns: u64,
    pub capture_ns: Option<u64>,
    pub instantiate_ns: Option<u64>,
    /// Nothing where it was made before the trace: its contents are not known.
    pub nodes: Option<u64>,
    pub kernels: Option<u64>,
    pub updates: u64,
    pub launches: u64,
    pub launch_ns: u64,
    pub destroyed_ns: Option<u64>,
    pub stack_id: Option<i64>,
}

/// A row of `graph_nodes`, by pid, graph, creation and node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GraphNode {
    pub pid: u32,
    pub graph: u64,
    pub created_ns: u64,
    /// From 0, in the order of capture.
    pub node: u32,
    /// `kernel`, `copy`, `set`, `host`, `graph` or `collective`.
    pub kind: String,
    /// The call that made it.
    pub op: OpId,
    /// Function of a kernel, or a child graph.
    pub handle: u64,
    pub bytes: u64,
    pub direction: Option<Direction>,
    pub stack_id: Option<i64>,
    /// Replaced by an update since.
    pub replaced: bool,
}

/// What memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    Device,
    Managed,
    /// Pinned memory of the host.
    Host,
    /// Memory of the program that was pinned later.
    Registered,
}

impl MemoryKind {
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Device => "device",
            MemoryKind::Managed => "managed",
            MemoryKind::Host => "host",
            MemoryKind::Registered => "registered",
        }
    }
}

/// A row of `allocations`, by pid, address and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub pid: u32,
    /// The address, or the handle of physical memory.
    pub address: u64,
    pub bytes: u64,
    pub allocated_ns: u64,
    pub freed_ns: Option<u64>,
    pub tid: u32,
    pub op: OpId,
    pub kind: MemoryKind,
    pub gpu: Option<u16>,
    /// `graph:0x...` where it was made during a capture, or the handle of its memory pool.
    pub pool: Option<String>,
    pub stack_id: Option<i64>,
}

/// A row of `memory_stats`: a process's memory of one kind on one GPU, when it had changed by the end of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    pub time_ns: u64,
    pub pid: u32,
    pub gpu: Option<u16>,
    pub kind: MemoryKind,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub live_count: u64,
    /// All that was ever allocated and freed in this trace.
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    pub failures: u64,
}

/// A row of `memory_failures`: an allocation that failed, and who held the memory then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFailure {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub op: OpId,
    pub bytes: u64,
    pub ret: i32,
    pub gpu: Option<u16>,
    pub stack_id: Option<i64>,
    /// Live device and managed memory of all traced processes.
    pub live_bytes: u64,
    /// By call site, most first, at most ten.
    pub holders: Vec<Holder>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub stack_id: Option<i64>,
    pub bytes: u64,
    pub count: u64,
}

/// A row of `coldstart_events`: something that happens once, and makes first calls slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdStart {
    pub start_ns: u64,
    pub duration_ns: u64,
    /// `context`, `module_load`, `jit`, `lazy_load` or `first_launch`.
    pub event: String,
    pub op: OpId,
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    /// The kernel's or the module's name.
    pub name: String,
    pub bytes: u64,
    pub ret: i32,
    pub stack_id: Option<i64>,
}

/// A row of `gpu_time`: how long a stream was busy in a window, between two bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuTime {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub stream: u64,
    pub stream_tid: u32,
    pub submitted: u64,
    pub launches: u64,
    pub launch_ns: u64,
    pub busy_lower_ns: u64,
    pub busy_upper_ns: u64,
}

/// A row of `copy_stats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyWindow {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub cgroup_id: u64,
    pub direction: Direction,
    pub count: u64,
    pub bytes: u64,
    /// The host's time in the calls.
    pub sum_ns: u64,
    pub errors: u64,
}

/// A row of `calls_in_flight`, by pid, tid and start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallInFlight {
    pub start_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub op: OpId,
    pub stream: u64,
    pub handle: u64,
    pub comm_id_hash: Option<u64>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    pub seq: Option<u64>,
    /// When it was last seen to last.
    pub seen_ns: u64,
    /// When it was first seen to be over; nothing while it lasts.
    pub ended_ns: Option<u64>,
    /// Its Python frames, where they were read.
    #[serde(default)]
    pub stack_id: Option<i64>,
    /// The innermost of them, as `train.py:142 forward`; the file has it in `frames`.
    #[serde(default)]
    pub line: Option<String>,
}
