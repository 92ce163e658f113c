//! From where on a rank counts as ill, for agents that judge themselves.

use super::Signal;
use schemars::JsonSchema;
use serde::Serialize;

/// What the reply to a push carries: of the health signal, median - k x 1.4826 x MAD over the ranks of the cohort.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    pub signal: Signal,
    /// Nothing while no rank has told its health.
    pub value: Option<f64>,
    pub median: Option<f64>,
    pub mad: Option<f64>,
    /// At least three ranks and half of the job told something lately.
    pub quorum_met: bool,
    /// `CLUSTER/JOB`.
    pub cohort: String,
    /// Heard of lately.
    pub ranks: usize,
    pub nranks: usize,
    /// `ranks` of `nranks`.
    pub coverage: f64,
}
