//! What is said of a rank, or of a whole cohort.

use super::Signal;
use gpuwhy_model::Cause;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// A rank that its peers wait for.
    Straggler,
    /// All ranks are slower than they were.
    Regression,
}

/// One signal of a rank beside its peers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reading {
    pub signal: Signal,
    pub value: f64,
    /// Of the peers.
    pub median: f64,
    pub unit: &'static str,
}

/// What of a rank's time went to a cause, beside what its peers lose to it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseReading {
    pub class: Cause,
    pub share: f64,
    pub median: f64,
}

/// The line a rank was met at more often than its peers, between its calls.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlaceReading {
    /// What its thread did there, or waited for.
    pub class: Cause,
    /// As `train.py:142 load_batch`, with the file's path.
    pub line: String,
    /// Of the rank's time.
    pub share: f64,
    /// Of its peers' time.
    pub median: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    pub kind: VerdictKind,
    pub cluster: String,
    pub job: String,
    /// Of the straggler; nothing for a whole cohort.
    pub rank: Option<u32>,
    pub node: Option<String>,
    /// When it was first said, by the fleet's clock.
    pub since_ns: u64,
    /// The one that speaks loudest.
    pub signal: Signal,
    pub value: f64,
    /// Of the peers, or of the cohort's past.
    pub median: f64,
    /// From where on a value is an outlier.
    pub threshold: f64,
    pub unit: &'static str,
    /// How much of a step, or of the time, it is worse by.
    pub excess_share: f64,
    /// The evidence, in natural logarithms of how much likelier it is that the rank is slow than that it is not.
    pub score: f64,
    /// What the rank loses more time to than its peers, where the agents tell.
    pub cause: Option<CauseReading>,
    /// Where in its program, where it is in Python.
    pub place: Option<PlaceReading>,
    /// All signals of the rank, those first that differ most.
    pub readings: Vec<Reading>,
    /// Ranks compared, and of how many.
    pub ranks: usize,
    pub nranks: usize,
    /// In a sentence.
    #[serde(flatten, serialize_with = "gpuwhy_model::with_old_name")]
    #[schemars(with = "gpuwhy_model::Message<String>")]
    pub message: String,
}
