//! Simulated agents with planted faults push to a fleet over real OTLP, and what it found is compared with what was planted.

mod address;
mod ask;
mod drive;
mod error;
mod jobs;
mod otlp;
mod report;
mod score;
mod send;

pub use drive::{Load, load};
pub use error::LoadError;
pub use report::Report;
