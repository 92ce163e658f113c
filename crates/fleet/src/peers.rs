//! Peers compared: what comes in goes to the cohorts, and a push's answer says what its cohort's threshold is.

use crate::point::Batch;

/// What a node is told with the answer to its push.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    pub threshold: f64,
    pub quorum_met: bool,
    pub cohort: String,
}

#[derive(Debug, Default)]
pub struct Peers {}

impl Peers {
    pub fn take(&self, _batch: &Batch) {}

    pub fn advice(&self, _batch: &Batch) -> Option<Advice> {
        None
    }
}
