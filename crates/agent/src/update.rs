//! What the agent tells whoever watches: the live screen, the JSON stream, the demo.

use crate::{AgentError, Overview, OwnCost};
use gpuwhy_cause::Tallies;
use gpuwhy_host::Load;
use gpuwhy_model::{Batch, Coverage, Facts, OpInfo, ProbeState, ProbeStatus, Process, Recording};
use gpuwhy_probes::ProgramStats;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub enum Update {
    /// Everything is loaded; the clock runs.
    Started { start_ns: u64, ops: Vec<OpInfo>, flavour: &'static str, command_pid: Option<u32> },
    /// Functions of a library were attached, or could not be.
    Attached(Vec<ProbeStatus>),
    /// What just came in, and what follows from it.
    Batch(Box<(Batch, Facts)>),
    /// So many batches and snapshots were left out, as whoever watches did not keep up; the trace has what was in them.
    Skipped(u64),
    /// Once a second.
    Snapshot(Box<Snapshot>),
    /// The last one.
    Ended(Box<Result<Summary, AgentError>>),
}

/// The trace so far.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub now_ns: u64,
    pub start_ns: u64,
    pub tallies: Tallies,
    /// Those that live or ended lately.
    pub processes: Vec<Process>,
    pub processes_seen: usize,
    pub coverage: Coverage,
    pub load: Load,
    pub own: OwnCost,
    /// Ring records read.
    pub records: u64,
    pub libraries: usize,
    /// How many functions and tracepoints of each probe are in which state.
    pub probes: Vec<(String, ProbeState, u64)>,
    /// What was concluded: memory, collectives, graphs, the GPUs.
    pub overview: Overview,
}

/// How it ended.
#[derive(Debug)]
pub struct Summary {
    pub file: PathBuf,
    pub last: Snapshot,
    pub ops: Vec<OpInfo>,
    pub command_status: Option<std::process::ExitStatus>,
    pub recording: Option<Recording>,
    /// The programs that were loaded, just before they were detached.
    pub programs: Vec<ProgramStats>,
    /// How long each probe took to load.
    pub load_times: Vec<(&'static str, Duration)>,
}
