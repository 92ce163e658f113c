//! What is said of a collective that does not end.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HangKind {
    /// A rank did not come.
    Missing,
    /// A rank came with another operation, count or type.
    Mismatch,
    /// Ranks wait for each other in different communicators.
    Deadlock,
    /// All came, and none is done: the network or a GPU.
    Inside,
}

/// A rank that the others wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Suspect {
    /// In the job; of a rank that was never seen, in the communicator.
    pub rank: u32,
    /// Nothing for a rank that no agent watches.
    pub node: Option<String>,
    /// The last collective it came to in this communicator.
    pub last_seq: Option<u64>,
    pub last_call: Option<String>,
    /// Where calls do not match: what the others called.
    pub expected_call: Option<String>,
    /// How long ago its agent was last heard of.
    pub silent_ns: Option<u64>,
    /// Innermost first; empty where it has not told one.
    pub stack: Vec<String>,
}

/// A rank that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waiter {
    pub rank: u32,
    pub node: String,
    /// How long, by the fleet's clock.
    pub waits_ns: u64,
    pub call: String,
    pub stack: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Autopsy {
    pub cluster: String,
    pub job: String,
    pub kind: HangKind,
    pub comm: String,
    pub seq: u64,
    pub op: String,
    pub nranks: u32,
    /// When it was first seen to wait, by the fleet's clock.
    pub since_ns: u64,
    pub culprits: Vec<Suspect>,
    pub waiting: Vec<Waiter>,
    /// Ranks of the communicator that no agent watches.
    pub unobserved: Vec<u32>,
    /// Nobody else can be the culprit.
    pub certain: bool,
    #[serde(flatten, serialize_with = "gpuwhy_model::with_old_name")]
    #[schemars(with = "gpuwhy_model::Message<String>")]
    pub message: String,
}
