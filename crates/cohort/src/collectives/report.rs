//! What is told of a communicator: arrival order and lateness by rank.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CommunicatorReport {
    pub comm: String,
    pub nranks: u32,
    pub last_seq: u64,
    /// Collectives of which the arrivals of several ranks were compared; one in `stride` is.
    pub joined: u64,
    pub stride: u64,
    /// Calls end when the collective is done. Otherwise only their beginnings are compared.
    pub blocking: bool,
    /// The latest first.
    pub ranks: Vec<RankLateness>,
    /// The newest first.
    pub rounds: Vec<RoundReport>,
    /// Who waited for whom and how long, the longest first: (waiting rank, awaited rank, nanoseconds).
    pub waits: Vec<(u32, u32, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankLateness {
    /// In the job.
    pub rank: u32,
    pub node: String,
    pub joined: u64,
    /// How often it came last.
    pub last: u64,
    /// Behind the median rank, in the middle of the newest collectives.
    pub median_late_ns: i64,
    /// What all others waited for it, when it was last.
    pub kept_waiting_ns: u64,
    /// What the job would have saved, had it come with the one before it.
    pub alone_ns: u64,
    pub waited_ns: u64,
    /// The same as a share of the time, ten seconds each, for [`crate::cost::Counterfactual`].
    #[serde(skip)]
    pub saved_shares: Vec<f64>,
}

/// One collective in order of arrival.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RoundReport {
    pub seq: u64,
    pub op: String,
    /// From the first arrival to the last.
    pub spread_ns: u64,
    /// (rank, behind the first, nanoseconds); at most sixteen, the last ones.
    pub order: Vec<(u32, u64)>,
}
