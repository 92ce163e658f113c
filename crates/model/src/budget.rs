//! What being watched costs, and what is done to keep it within its budget.

use serde::{Deserialize, Serialize};

/// How much of a thread's calls is seen. Each does what those before it do, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    #[default]
    Full,
    NoStacks,
    /// One in so many calls is measured, all are counted.
    Sample,
    /// Calls are counted, none is measured.
    Count,
    /// Over budget even so: the function has to be detached.
    Detach,
}

impl Level {
    /// In the order of `enum level` in `bpf/budget.h`.
    pub const ALL: [Level; 5] = [Level::Full, Level::NoStacks, Level::Sample, Level::Count, Level::Detach];

    pub fn name(self) -> &'static str {
        match self {
            Level::Full => "full",
            Level::NoStacks => "no_stacks",
            Level::Sample => "sample",
            Level::Count => "count",
            Level::Detach => "detach",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Level::Full => "everything is seen",
            Level::NoStacks => "no stacks are taken",
            Level::Sample => "one in 16 of its frequent calls is measured, all are counted",
            Level::Count => "frequent calls are counted, not measured",
            Level::Detach => "the function that is called most is not seen at all",
        }
    }
}

/// A thread got to another level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelChange {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub level: Level,
    /// What it owes: beyond the budget's room it is detached.
    pub debt_ns: u64,
    /// The call that did it: number of its function, and of the library file.
    pub rule: u16,
    pub library: u16,
}

/// What being watched cost a process in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    /// Calls of its that were trapped.
    pub calls: u64,
    /// Of all its threads.
    pub cost_ns: u64,
    /// Of the thread that paid most, in percent of the window.
    pub worst_thread_pct: f64,
    /// The deepest level one of its threads was at.
    pub level: Level,
}
