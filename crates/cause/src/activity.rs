//! What threads did, one wait and one sample at a time: the input of the critical path.

use gpuwhy_model::{OpId, Part, WokenBy};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub struct Activity {
    pub waits: Vec<ThreadWait>,
    /// From when on the waits are whole, where there were too many to look at all.
    pub whole_from_ns: u64,
    pub samples: Vec<ThreadSample>,
    /// By thread id: its process and its name.
    pub threads: BTreeMap<u32, ThreadName>,
    /// Files and peers that waits were for; a wait has its place in this list.
    pub objects: Vec<String>,
    /// Marks and calls that happen once in a unit of work, by process and time.
    pub beats: Vec<Beat>,
    /// How many there were in all, by process, kind and what they are counted as, where only some are recorded one by one.
    pub beat_counts: BTreeMap<(u32, BeatKind, u64), Vec<BeatCount>>,
    /// When something was loaded, compiled or launched for the first time, by process.
    pub cold: Vec<(u32, u64)>,
    /// By process: when it first made a context or loaded a module. What runs already when the trace begins has done both.
    pub first_load: BTreeMap<u32, u64>,
    /// The GPU's own busy counter: process, time, percent of the second before.
    pub busy: Vec<BusySample>,
    /// The GPUs each process is on, as the driver says.
    pub gpus: BTreeMap<u32, BTreeSet<u64>>,
    /// Processes that ran a program of their own (exec) after the process that started them.
    pub commands: BTreeMap<u32, Command>,
    /// When each thread made traced calls: its first and last window.
    pub callers: BTreeMap<u32, Caller>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadName {
    pub pid: u32,
    pub comm: String,
}

/// A thread that makes GPU calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller {
    pub pid: u32,
    pub calls: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// A child that was started with a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    pub parent_pid: u32,
    pub command: String,
}

/// What a system call is for, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Syscall {
    #[default]
    Other,
    /// Reads a file, pipe or socket.
    Read,
    /// Writes one.
    Write,
    /// Waits for a child process.
    WaitChild,
    /// Maps memory, or gives it back.
    Memory,
}

#[derive(Debug, Clone, Copy)]
pub struct ThreadWait {
    pub start_ns: u64,
    pub end_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub part: Part,
    pub op: OpId,
    /// 0 for nobody.
    pub by_pid: u32,
    pub by_tid: u32,
    /// Nothing where that was not seen.
    pub woken_by: Option<WokenBy>,
    pub syscall: Syscall,
    pub object: Option<u32>,
}

impl ThreadWait {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Where a thread was at a moment.
#[derive(Debug, Clone, Copy)]
pub struct ThreadSample {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub part: Part,
    pub op: OpId,
    pub stack_id: Option<i64>,
    pub weight_ns: u64,
    pub in_gc: bool,
    /// In the kernel, within this kind of system call.
    pub syscall: Syscall,
    /// In the kernel without a system call: a page fault.
    pub in_fault: bool,
}

/// One call that may mark a unit of work.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    pub pid: u32,
    pub kind: BeatKind,
    /// Tells one sequence from another of the same kind.
    pub key: u64,
    /// Under which key it is counted, with others of the same operation.
    pub counted_as: u64,
    pub time_ns: u64,
}

/// Beats of a window, all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeatCount {
    pub window_start_ns: u64,
    pub count: u64,
}

/// In the order in which they are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BeatKind {
    /// The program marked it.
    Mark,
    Collective,
    /// The main thread waits for a thread that launches, as for a backward pass.
    HandOver,
    GraphLaunch,
    Synchronisation,
    Copy,
    Wait,
    /// One that comes once in a step, of a loop that does nothing but launch.
    Kernel,
}

impl BeatKind {
    pub fn about(self) -> &'static str {
        match self {
            BeatKind::Mark => "the program's marks",
            BeatKind::Collective => "collectives",
            BeatKind::HandOver => "hand-overs between its threads",
            BeatKind::GraphLaunch => "graph launches",
            BeatKind::Synchronisation => "synchronisations",
            BeatKind::Copy => "copies",
            BeatKind::Wait => "its regular waits",
            BeatKind::Kernel => "launches of its rarest kernels",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct BusySample {
    pub pid: u32,
    pub time_ns: u64,
    pub pct: f64,
    /// Of the engine that runs kernels, by GPM; else what the driver samples.
    pub is_of_engine: bool,
}
