//! What a program, or somebody for it, says of what it is doing: which step, epoch or request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A step, an epoch, a request: whatever somebody marked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// When it began.
    pub time_ns: u64,
    /// Nothing for a moment, and for what has not ended.
    pub duration_ns: Option<u64>,
    pub state: MarkState,
    /// What is marked: the name of the first label, such as `step`.
    pub event: String,
    /// Its value.
    pub value: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Nothing where it is about all processes of whoever said it.
    pub pid: Option<u32>,
    /// Who said it.
    pub uid: u32,
    pub clock: MarkClock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkState {
    /// A moment.
    At,
    /// It has begun, and nobody said that it is over.
    Open,
    /// It is over; said once before while it was open.
    Ended,
}

impl MarkState {
    pub fn name(self) -> &'static str {
        match self {
            MarkState::At => "at",
            MarkState::Open => "open",
            MarkState::Ended => "ended",
        }
    }
}

/// Whose clock its times are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkClock {
    /// CLOCK_MONOTONIC, as whoever said it read it.
    Annotator,
    /// When the agent heard of it.
    Received,
}

impl MarkClock {
    pub fn name(self) -> &'static str {
        match self {
            MarkClock::Annotator => "annotator",
            MarkClock::Received => "received",
        }
    }
}

/// The marks of one name that a finding falls into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// As `step`.
    pub event: String,
    /// As `140-152, 160`.
    pub values: String,
    /// How many of them, and how many were marked in all.
    pub count: u64,
    pub of: u64,
    /// How much of the finding's lost time lies in them; nothing where only its window is known.
    pub share_pct: Option<f64>,
}
