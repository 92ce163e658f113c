//! Calls: the kept ones in full, and the exact sums over all of them.

use crate::{Blame, Histogram, OpId};
use serde::{Deserialize, Serialize};

/// Why a call was kept in full. Calls that are not kept are still counted in [`CallWindow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// It returned an error.
    Error,
    /// It took longer than its operation's limit at that time.
    Slow,
    /// It was drawn at random; only these rows are an unbiased sample.
    Sample,
    /// Its operation was called so seldom in that second that every call was kept.
    Rare,
    /// Everything was asked for.
    All,
}

impl Kept {
    pub fn name(self) -> &'static str {
        match self {
            Kept::Error => "error",
            Kept::Slow => "slow",
            Kept::Sample => "sample",
            Kept::Rare => "rare",
            Kept::All => "all",
        }
    }
}

/// How a driver function was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By the runtime library, on behalf of the program.
    Runtime,
    /// By the program or a library above the runtime, straight into the driver.
    Direct,
}

impl Via {
    pub fn name(self) -> &'static str {
        match self {
            Via::Runtime => "runtime",
            Via::Direct => "direct",
        }
    }
}

/// Grid and block of a kernel launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

/// One call, kept in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When it began, unix time.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub op: OpId,
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    pub kept: Kept,
    /// N where the call was drawn into the 1-in-N sample, else 0: rows with N stand for N calls each.
    pub sample_weight: u32,
    pub ret: i32,
    pub bytes: u64,
    pub stream: u64,
    /// The function, pointer or handle the call was about.
    pub handle: u64,
    /// Address of the instruction the call returned to.
    pub caller: u64,
    /// Nothing for functions of the runtime itself, and where the caller's code could not be told.
    #[serde(default)]
    pub via: Option<Via>,
    pub launch: Option<Launch>,
    pub stack_id: Option<i64>,
    pub blame: Blame,
}

/// All calls of one operation by one thread in one window, kept or not: exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallWindow {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub op: OpId,
    pub count: u64,
    pub errors: u64,
    pub kept: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub blame: Blame,
    pub hist: Histogram,
}

/// A user stack, innermost first, known by a number made from process and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    pub stack_id: i64,
    pub pid: u32,
    pub addresses: Vec<u64>,
}
