//! The words of gpuwhy: what a call, a wait, a cause and a loss are. Values only; nothing here reads a clock,
//! a file or the kernel, so everything built on it can be replayed.

mod address;
pub mod advice;
mod annotation;
mod batch;
mod blame;
mod budget;
mod call;
mod cause;
mod coverage;
mod facts;
mod finding;
mod glossary;
mod gpu;
mod histogram;
mod host;
pub mod log;
mod message;
mod op;
mod process;
mod question;
mod raw;
mod server;
mod slices;
mod stack;
pub mod units;

pub use address::is_loopback;
pub use annotation::{Annotation, MarkClock, MarkState, Touched};
pub use batch::{Batch, Recording};
pub use blame::{Blame, BlameRow, Part, Reason, Wait};
pub use budget::{Debt, Level, TracingCost};
pub use call::{Call, CallWindow, Direction, Kept, Launch, Via};
pub use cause::Cause;
pub use coverage::{Coverage, Loss, LossCount, ProbeState, ProbeStatus};
pub use facts::{
    Allocation, CallInFlight, ColdStart, Collective, CollectiveWait, CopyWindow, Facts, GpuTime, Graph,
    GraphNode, Holder, Kernel, MemoryFailure, MemoryKind, MemoryUse,
};
pub use finding::{CauseShare, Culprit, Finding, Impact, Place, Severity, Span};
pub use gpu::{GpuError, GpuProcess, GpuSample, RdmaEvent};
pub use histogram::{BUCKETS, Histogram, bucket_of, bucket_range};
pub use host::{
    BetweenCalls, CpuSample, Ends, FileRef, IoEvent, MemoryPlace, Neighbour, OomEvent, TcpEvent, ThreadPlace,
    WaitEvent, WokenBy,
};
pub use message::{Message, with_old_name};
pub use op::{Family, Layer, OpId, OpInfo, Role};
pub use process::{Container, Process, ProcessEvent, ProcessEventKind};
pub use question::Question;
pub use raw::{Completion, InFlight, LaunchCount, LibraryInfo, NcclCall, StreamState};
pub use server::{Bucket, Latency, Quantile, ServerSample, Signal};
pub use slices::{CallClass, Estimate, Slice, Watched};
pub use stack::{
    Frame, FrameKind, PythonFrame, RawCode, RawStack, RawText, Stack, ThreadRegisters, is_compiled_model,
    is_of_library,
};
