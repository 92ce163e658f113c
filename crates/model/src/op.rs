//! Operations: the library functions gpuwhy times, numbered for the kernel and named for people.

use serde::{Deserialize, Serialize};

/// Number of an operation within one run; the table that gives it a name travels with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(pub u16);

impl OpId {
    /// Outside any probed call.
    pub const NONE: OpId = OpId(0);
}

/// Which library an operation belongs to; decides the event table it is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Cuda,
    Hip,
    Nccl,
    Rdma,
    /// The kernel's GPU driver: ioctls on its device files.
    Driver,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Layer::Cuda => "cuda",
            Layer::Hip => "hip",
            Layer::Nccl => "nccl",
            Layer::Rdma => "rdma",
            Layer::Driver => "driver",
        }
    }
}

/// What an operation does; the meaning of the time spent in it depends on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    Launch,
    Sync,
    Copy,
    Set,
    Alloc,
    Free,
    Graph,
    Event,
    /// Contexts, modules, libraries, kernels: what is made ready once.
    Load,
    /// Collectives, messages, communicators.
    Collective,
    Ioctl,
    Other,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::Launch => "launch",
            Family::Sync => "sync",
            Family::Copy => "copy",
            Family::Set => "set",
            Family::Alloc => "alloc",
            Family::Free => "free",
            Family::Graph => "graph",
            Family::Event => "event",
            Family::Load => "load",
            Family::Collective => "collective",
            Family::Ioctl => "ioctl",
            Family::Other => "other",
        }
    }
}

/// What a call does to the things the ledger keeps: streams, kernels, graphs, memory. The words say where a
/// [`crate::Call`] has what is needed: its `handle`, its `aux` and its `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    #[default]
    None,
    /// Runs a kernel; `handle` is the function.
    Launch,
    /// Runs a graph; `handle` is its executable.
    GraphLaunch,
    /// Other work on a stream: copies, memsets, host functions.
    Submit,
    SyncStream,
    /// `handle` is the event.
    SyncEvent,
    SyncDevice,
    /// `handle` is the event.
    EventRecord,
    /// `handle` is the event; returns 0 when it is done.
    EventQuery,
    /// Returns 0 when the stream is empty.
    StreamQuery,
    /// The stream waits for the event `handle`.
    StreamWait,
    /// `stream` is the origin.
    CaptureBegin,
    /// `handle` is the graph that came of it.
    CaptureEnd,
    /// `handle` is a new, empty graph.
    GraphCreate,
    /// `handle` is the copy, `aux` the graph copied.
    GraphClone,
    /// `handle` is the executable, `aux` the graph.
    GraphInstantiate,
    /// `handle` is the executable, `aux` the graph it takes over.
    GraphUpdate,
    /// A kernel is added to the graph `aux`; `handle` is the function.
    GraphAddKernel,
    /// A copy is added to the graph `aux`.
    GraphAddCopy,
    /// A memset is added to the graph `aux`.
    GraphAddSet,
    /// A host function is added to the graph `aux`.
    GraphAddHost,
    /// The graph `handle` is added to the graph `aux`.
    GraphAddChild,
    /// `handle` is the graph.
    GraphDestroy,
    /// `handle` is the executable.
    ExecDestroy,
    /// `handle` is device memory of `bytes`; where `aux` is not 0 it is the pool.
    AllocDevice,
    AllocManaged,
    /// Pinned host memory.
    AllocHost,
    /// Memory of the program that is pinned; `handle` is its address.
    RegisterHost,
    UnregisterHost,
    /// `handle` is what any of the above gave.
    Free,
    /// Physical memory of `bytes`; `handle` stands for it.
    PhysicalCreate,
    /// The physical memory `aux` gets the address `handle`.
    PhysicalMap,
    /// `handle` is the address.
    PhysicalUnmap,
    /// The handle given by PhysicalCreate is given back; the memory lives on while it is mapped.
    PhysicalRelease,
    /// `handle` is one more handle of the physical memory mapped at `aux`.
    PhysicalRetain,
    /// `handle` is the context.
    ContextCreate,
    /// `handle` is the module; `name` is its file, `aux` the first eight bytes of its code.
    ModuleLoad,
    /// The linker made machine code.
    Jit,
    /// `handle` is the function or kernel called `name`, of the module `aux`.
    FunctionName,
    /// `handle` is the function of the kernel `aux`.
    KernelFunction,
    /// `handle` is the host's stub of the kernel called `name`.
    Register,
    /// The thread's device from now on is `handle`.
    SetDevice,
}

/// An operation as people know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpInfo {
    pub id: OpId,
    /// The function's name as the library exports it, less the version suffix users never type.
    pub name: String,
    pub layer: Layer,
    pub family: Family,
    /// The call returns only after queued GPU work has finished.
    pub waits_for_gpu: bool,
    #[serde(default)]
    pub role: Role,
}
