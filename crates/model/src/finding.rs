//! What `explain` says: findings, each with its price, its causes and their culprits, where in the code, and what to do.
//! The names of the fields are those of its JSON.

use crate::{Cause, Touched};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the time is lost to something that departs from normal. What follows from how a program is built does not, however
/// much it takes: such a finding raises no alarm, and its tag says why (`by_design`). Low without that tag is a small loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
}

impl Severity {
    /// The worst first.
    pub const ALL: [Severity; 4] = [Severity::Critical, Severity::High, Severity::Medium, Severity::Low];

    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The same for the same trace.
    pub id: String,
    /// Which rule found it, see `docs/rules.md`.
    pub rule: String,
    pub severity: Severity,
    pub title: String,
    /// Nothing where the time was lost between calls, or by the whole process.
    pub op: Option<String>,
    pub pid: Option<u32>,
    pub process: Option<String>,
    pub cgroup: Option<String>,
    pub rank: Option<i32>,
    pub node: Option<String>,
    pub window: Span,
    pub impact: Impact,
    /// Largest first. The shares are of the excess, what is unknown included: they sum to 100.
    pub causes: Vec<CauseShare>,
    /// Share of the excess that has a cause: neither unknown, nor the library's own computing.
    pub explained_pct: f64,
    #[serde(rename = "where")]
    pub place: Place,
    pub fixes: Vec<String>,
    /// What would show that it is not so.
    pub refuted_by: String,
    /// Shows the evidence.
    pub sql: String,
    /// The steps, epochs or requests in which its time was lost, where somebody marked them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Touched>,
    /// Of which phase of the process: `start`, `loop` or `end`; shares are of that phase. Nothing where phases are not known.
    #[serde(default)]
    pub phase: Option<String>,
    /// What a step, or the whole phase where no steps were found, would take less without it.
    #[serde(default)]
    pub saves_ms_per_step: Option<f64>,
    /// The same, at least and at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saves_ms_interval: Option<[f64; 2]>,
    /// How the program is built, where that is all there is to it: `launch bound`, `GPU bound`. It may take most of the time, and
    /// nothing departs from normal: the severity is then low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_design: Option<String>,
}

impl Finding {
    /// Of its largest cause.
    pub fn class(&self) -> Option<Cause> {
        self.causes.first().map(|cause| cause.class)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Span {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What it cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    pub calls: u64,
    pub slow_calls: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Time beyond what is normal.
    pub excess_ms: f64,
    /// The excess as a share of the time in which the process used the GPU.
    pub wall_pct: f64,
    /// Where `calls` is an estimate, as they were watched in slices of time: its interval, and how much was watched. Without an
    /// interval, but with a share, `calls` is what was counted, and so the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_interval: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_pct: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseShare {
    pub class: Cause,
    pub share_pct: f64,
    pub ms: f64,
    /// Who was behind it, most time first.
    pub by: Vec<Culprit>,
    /// What was seen, in sentences.
    pub evidence: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// Nothing where it is no process of this host: a peer, a rank, the GPU.
    pub pid: Option<u32>,
    pub comm: String,
    pub cgroup: Option<String>,
    /// Where the culprit is a rank of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<i32>,
    pub ms: f64,
    pub count: u64,
}

/// Where in the code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// As `train.py:142 forward`, innermost first.
    pub python: Vec<String>,
    /// As `function (library)`, innermost first.
    pub native: Vec<String>,
    /// Of a launch: the kernel that most of the slow ones ran.
    pub kernel: Option<String>,
}
