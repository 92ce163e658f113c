//! What being watched costs, and what is done to keep it within its budget.

use crate::CallClass;
use serde::{Deserialize, Serialize};

/// How much of a process's calls is seen. Each does what those before it do, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    #[default]
    Full,
    NoStacks,
    /// Frequent calls are watched in slices of time.
    Sliced,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Full => "full",
            Level::NoStacks => "no_stacks",
            Level::Sliced => "sliced",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Level::Full => "everything is seen",
            Level::NoStacks => "some calls have no stack",
            Level::Sliced => "frequent calls are watched in slices of time",
        }
    }
}

/// A thread's cost has grown beyond what the budget allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub debt_ns: u64,
    /// Whose slice it ended; nothing where it only has no stacks taken any more.
    pub class: Option<CallClass>,
}

/// What being watched cost a process in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracingCost {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    /// Calls of its that were trapped.
    pub calls: u64,
    /// Of all its threads.
    pub cost_ns: u64,
    /// Of the thread that paid most, in percent of the window.
    pub worst_thread_pct: f64,
    pub level: Level,
}
