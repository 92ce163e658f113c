//! What was not seen: lost records, probes that are not attached, calls that were only counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Records that could not be delivered, counted where they were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub start_ns: u64,
    pub end_ns: u64,
    pub probe: String,
    /// -1 where the loss is not of one CPU.
    pub cpu: i32,
    pub reason: String,
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    Attached,
    /// Works, but with less than was asked for.
    Degraded,
    Refused,
    /// This version of the library does not have it.
    Absent,
}

impl ProbeState {
    /// It fires, if with less than was asked for.
    pub fn works(self) -> bool {
        matches!(self, ProbeState::Attached | ProbeState::Degraded)
    }

    pub fn name(self) -> &'static str {
        match self {
            ProbeState::Attached => "attached",
            ProbeState::Degraded => "degraded",
            ProbeState::Refused => "refused",
            ProbeState::Absent => "absent",
        }
    }
}

/// One function or tracepoint of a probe in one file, and how it is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStatus {
    pub probe: String,
    /// The function or tracepoint.
    pub target: String,
    /// The library file; empty for a tracepoint.
    pub file: String,
    pub state: ProbeState,
    /// `session`, `multi`, `single` or `tracepoint`.
    pub flavour: String,
    /// When it was attached, unix time.
    pub since_ns: u64,
    /// Why it is degraded or refused; else empty.
    pub reason: String,
}

/// Records that a probe lost for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LossCount {
    pub probe: String,
    pub reason: String,
    pub count: u64,
}

impl Coverage {
    /// Adds records that were lost to the count of their place.
    pub fn add_loss(&mut self, probe: &str, reason: &str, count: u64) {
        self.lost += count;
        match self.lost_by.iter_mut().find(|lost| lost.probe == probe && lost.reason == reason) {
            Some(lost) => lost.count += count,
            None => self.lost_by.push(LossCount { probe: probe.into(), reason: reason.into(), count }),
        }
        self.lost_by.sort_by_key(|lost| std::cmp::Reverse(lost.count));
    }
}

/// What an answer does not cover; printed with every answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Records lost on the way.
    pub lost: u64,
    /// The same by place and reason, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_by: Vec<LossCount>,
    /// Calls that were counted but not kept in full.
    pub sampled: u64,
    /// Probes that see less than was asked for, and why.
    pub degraded: Vec<String>,
    /// Probes that could not be attached, and why.
    pub unattached: Vec<String>,
    /// What the data as a whole cannot support, a sentence each: of traces that another tool made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Nodes that were asked and are not in the answer, and why; see `--nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}
