//! Ranks compared with their peers. Samples and collective records come in, with the time; verdicts, clocks, autopsies and
//! costs come out. Nothing here reads a clock, a file or a socket, so everything can be replayed.
//!
//! [`Cohorts`] is the entry point: it holds a bounded state for each (cluster, job).

pub mod cohort;
pub mod collectives;
pub mod cost;
mod robust;
pub mod shares;
pub mod simulation;
mod source;

pub use cohort::{Cohorts, Limits, Place, Sample, Signal, Threshold, Verdict, VerdictKind};
pub use collectives::{Autopsy, Clock, Record};
pub use cost::{Cost, Rates, cost};
pub use source::Source;
