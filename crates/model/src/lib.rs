//! The words of gpuwhy: what a call, a wait, a cause and a loss are. Values only; nothing here reads a clock,
//! a file or the kernel, so everything built on it can be replayed.

mod batch;
mod blame;
mod call;
mod cause;
mod coverage;
mod histogram;
mod op;
mod process;
pub mod units;

pub use batch::{Batch, Recording};
pub use blame::{Blame, BlameRow, Part, Reason, Wait};
pub use call::{Call, CallWindow, Kept, Launch, Stack, Via};
pub use cause::Cause;
pub use coverage::{Coverage, Loss, ProbeState, ProbeStatus};
pub use histogram::{BUCKETS, Histogram, bucket_of, bucket_range};
pub use op::{Family, Layer, OpId, OpInfo};
pub use process::{Process, ProcessEvent, ProcessEventKind};
