//! What comes out of the kernel besides calls: collectives, streams, launches by function, calls in flight.

use crate::{Call, OpId};
use serde::{Deserialize, Serialize};

/// A library file whose functions are probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryInfo {
    /// From 1, in the order of attaching.
    pub number: u16,
    /// `libcuda`, `libcudart`, `libnccl`, `libamdhip64` or `libibverbs`.
    pub kind: String,
    /// As the process that maps it sees it.
    pub file: String,
}

/// A call of the collective library as the kernel saw it. What it does not know is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NcclCall {
    /// Its `handle` is the communicator's handle, `bytes` what the count and the type make, 0 where unknown.
    pub call: Call,
    /// The kernel's number of the communicator: never used twice, unlike its handle. 0 for calls without one.
    pub communicator: u64,
    pub comm_id_hash: Option<u64>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    /// From 1, of collectives only; nothing where the communicator is older than the trace.
    pub seq: Option<u64>,
    pub count: Option<u64>,
    /// As NCCL numbers them.
    pub datatype: Option<i32>,
    pub reduce_op: Option<i32>,
    /// The other rank of a message, the root of a rooted collective.
    pub peer: Option<i32>,
    /// Between group start and group end: the work begins at the end.
    pub grouped: bool,
    /// The stream, by the kernel's number of it, and how much was submitted to it up to this call.
    pub stream_slot: u32,
    pub mark: u64,
}

/// A stream on which collectives were pending is known to have got so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// When the host knew.
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub stream_slot: u32,
    /// Everything up to this mark is done.
    pub done: u64,
    /// The call that told, and how long it waited.
    pub op: OpId,
    pub wait_ns: u64,
}

/// A stream at the end of a window. The sums count from the stream's first use on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    pub time_ns: u64,
    pub pid: u32,
    pub stream: u64,
    pub stream_slot: u32,
    /// The thread whose default stream it is, where each thread has its own; else 0.
    pub tid: u32,
    pub submitted: u64,
    pub launches: u64,
    /// The host's time in those launches.
    pub launch_ns: u64,
    /// It may have been busy so long: from work submitted until the host knew that all was done.
    pub busy_upper_ns: u64,
    /// It was busy so long: somebody waited for it.
    pub busy_lower_ns: u64,
}

/// How often a function or an executable graph was launched, from its first launch on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCount {
    pub time_ns: u64,
    pub pid: u32,
    /// [`Call::handle`] of its launches.
    pub handle: u64,
    pub graph: bool,
    pub count: u64,
    /// The host's time in them.
    pub sum_ns: u64,
}

/// A call that has not returned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InFlight {
    /// When it was seen.
    pub seen_ns: u64,
    pub start_ns: u64,
    pub op: OpId,
    pub pid: u32,
    pub tid: u32,
    pub stream: u64,
    pub handle: u64,
    /// Of a collective; 0 for others.
    pub communicator: u64,
    pub comm_id_hash: Option<u64>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    pub seq: Option<u64>,
    /// Where its thread has its own data.
    #[serde(skip)]
    pub thread_pointer: u64,
    /// Its Python frames, where they were read.
    pub stack_id: Option<i64>,
    /// The innermost of them, as `train.py:142 forward`.
    pub line: Option<String>,
}
