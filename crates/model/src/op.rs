//! Operations: the library functions gpuwhy times, numbered for the kernel and named for people.

use serde::{Deserialize, Serialize};

/// Number of an operation within one run; the table that gives it a name travels with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Layer::Cuda => "cuda",
            Layer::Hip => "hip",
            Layer::Nccl => "nccl",
            Layer::Rdma => "rdma",
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
            Family::Other => "other",
        }
    }
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
}
