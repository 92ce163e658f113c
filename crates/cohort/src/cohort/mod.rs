//! Ranks of one job, compared with each other and with their own past.

mod cohorts;
mod evidence;
mod job;
mod judge;
mod limits;
mod losses;
mod member;
mod message;
mod meter;
mod outliers;
mod places;
mod present;
mod regression;
mod sample;
mod series;
mod signal;
mod spikes;
mod threshold;
mod verdict;

pub use cohorts::Cohorts;
pub use limits::Limits;
pub use outliers::{Outlier, Outliers, outliers};
pub use sample::{Place, Sample};
pub use signal::Signal;
pub use threshold::Threshold;
pub use verdict::{CauseReading, PlaceReading, Reading, Verdict, VerdictKind};
