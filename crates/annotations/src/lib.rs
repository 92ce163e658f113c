//! Marks of steps, epochs and requests. Programs and `gpuwhy annotate` send them as lines of JSON to a Unix socket that a
//! trace opens when it is asked to; whoever is on the other end is told by the kernel, and may mark its own.

mod budget;
mod client;
mod clock;
#[doc(hidden)]
pub mod fuzz;
mod line;
mod listener;
mod news;
mod paths;
mod peer;
mod refusal;
mod spans;

pub use client::{SendError, send};
pub use line::{Line, MAX_LABELS, MAX_LINE_BYTES, MAX_NAME_BYTES, MAX_VALUE_BYTES, Subject, What, label};
pub use listener::Listener;
pub use news::News;
pub use paths::{ENVIRONMENT, default_path, paths_to_try};
pub use refusal::Refusal;
