//! What a simulated job is like, and what is wrong with it.

use gpuwhy_model::Cause;

/// How ranks are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All do the same, and meet in one communicator.
    Data { collectives: usize },
    /// Stages with unequal work that send to each other; `tensor` ranks of a stage work together, `replicas` do the same.
    Pipeline { stages: usize, tensor: usize, replicas: usize, microbatches: usize },
}

/// How much equal ranks differ from moment to moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Of a piece of work, as a share of it.
    pub sigma: f64,
    /// How often something takes much longer.
    pub spikes: f64,
    /// How long that is at least, as a share of a step; the tail is heavy.
    pub spike: f64,
    /// Ranks differ by so much always.
    pub bias: f64,
}

impl Noise {
    pub const CALM: Noise = Noise { sigma: 0.005, spikes: 0.001, spike: 0.1, bias: 0.002 };
    pub const USUAL: Noise = Noise { sigma: 0.02, spikes: 0.01, spike: 0.1, bias: 0.004 };
    pub const ROUGH: Noise = Noise { sigma: 0.04, spikes: 0.02, spike: 0.2, bias: 0.005 };
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// All its work takes so much longer.
    Slow { share: f64 },
    /// So long in one place of every step.
    Sleep { seconds: f64 },
    /// So long, in some steps.
    NowAndThen { chance: f64, seconds: f64 },
    /// So much longer for a while, then not.
    Bursts { share: f64, on_seconds: f64, off_seconds: f64 },
    /// It stops, and comes to no collective any more.
    Hang,
    /// Its next collective has another count.
    Mismatch,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// Nothing: all of them.
    pub rank: Option<usize>,
    pub kind: FaultKind,
    /// What its agent blames.
    pub cause: Cause,
    pub from_seconds: f64,
    pub to_seconds: f64,
}

/// A node's clock is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockStep {
    pub node: usize,
    pub at_seconds: f64,
    pub by_seconds: f64,
}

/// Simulated time begins here, unless a plan says otherwise: late enough that no clock is ever before its beginning.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// When it begins, by the clock of the fleet.
    pub begin_ns: u64,
    pub layout: Layout,
    pub ranks: usize,
    pub ranks_a_node: usize,
    /// Work of a step.
    pub step_seconds: f64,
    /// What a collective takes after the last one has come.
    pub transfer_seconds: f64,
    pub noise: Noise,
    pub faults: Vec<Fault>,
    /// Clocks are off by up to so much, and drift.
    pub clock_offset_seconds: f64,
    pub clock_drift_ppm: f64,
    /// Clocks that are set while the job runs.
    pub clock_steps: Vec<ClockStep>,
    pub push_seconds: f64,
    /// Calls return when the collective is done; else at once.
    pub is_blocking: bool,
    /// Agents tell collective records; else gauges alone.
    pub has_records: bool,
}

impl Plan {
    /// A time of the simulation by the clock of the fleet.
    pub fn fleet_ns(&self, seconds: f64) -> u64 {
        self.begin_ns + (seconds * 1e9) as u64
    }

    /// Eight ranks on two nodes, nothing wrong.
    pub fn new(seed: u64) -> Plan {
        Plan {
            seed,
            begin_ns: BEGIN_NS,
            layout: Layout::Data { collectives: 1 },
            ranks: 8,
            ranks_a_node: 4,
            step_seconds: 0.1,
            transfer_seconds: 0.005,
            noise: Noise::USUAL,
            faults: Vec::new(),
            clock_offset_seconds: 0.0,
            clock_drift_ppm: 0.0,
            clock_steps: Vec::new(),
            push_seconds: 1.0,
            is_blocking: true,
            has_records: true,
        }
    }
}
