//! A rank in a communicator: what it did last, and how late it was.

use std::collections::{BTreeMap, VecDeque};

/// Calls of a rank that are remembered as running; hosts run ahead of their GPU.
const RUNNING: usize = 32;
const LATE: usize = 64;
/// Of ten seconds each.
const BATCHES: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Running {
    /// By the fleet's clock.
    pub since_seen_ns: u64,
    pub shape: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Seat {
    /// In the job.
    pub rank: u32,
    pub node: u32,
    pub last_seq: u64,
    pub last_shape: u32,
    pub last_start_ns: u64,
    pub seen_ns: u64,
    pub running: BTreeMap<u64, Running>,
    pub joined: u64,
    pub last: u64,
    /// What all others waited for it, when it was last.
    pub kept_waiting_ns: u64,
    /// How far it was behind the one before it, when it was last: what the job would have saved.
    pub alone_ns: u64,
    /// What it waited for others.
    pub waited_ns: u64,
    late_ns: VecDeque<i64>,
    saved_now_ns: u64,
    saved: VecDeque<f32>,
}

impl Seat {
    pub(super) fn new(rank: u32, node: u32) -> Seat {
        Seat {
            rank,
            node,
            last_seq: 0,
            last_shape: 0,
            last_start_ns: 0,
            seen_ns: 0,
            running: BTreeMap::new(),
            joined: 0,
            last: 0,
            kept_waiting_ns: 0,
            alone_ns: 0,
            waited_ns: 0,
            late_ns: VecDeque::new(),
            saved_now_ns: 0,
            saved: VecDeque::new(),
        }
    }

    /// Collectives of a communicator run one after the other: when one is done, those before it are.
    pub(super) fn done(&mut self, seq: u64) {
        self.running = seq.checked_add(1).map(|next| self.running.split_off(&next)).unwrap_or_default();
    }

    pub(super) fn runs(&mut self, seq: u64, running: Running) {
        if self.running.len() < RUNNING {
            self.running.entry(seq).or_insert(running);
        }
    }

    /// The call it has been in for longest.
    pub(super) fn oldest_running(&self) -> Option<(u64, Running)> {
        self.running.first_key_value().map(|(seq, running)| (*seq, *running))
    }

    pub(super) fn late(&mut self, late_ns: i64) {
        if self.late_ns.len() == LATE {
            self.late_ns.pop_front();
        }
        self.late_ns.push_back(late_ns);
        self.joined += 1;
    }

    pub(super) fn came_last(&mut self, behind_next_ns: u64, kept_waiting_ns: u64) {
        self.last += 1;
        self.alone_ns += behind_next_ns;
        self.saved_now_ns += behind_next_ns;
        self.kept_waiting_ns += kept_waiting_ns;
    }

    /// So much time has passed: what it would have saved of it is one observation.
    pub(super) fn batch(&mut self, wall_ns: u64) {
        if self.saved.len() == BATCHES {
            self.saved.pop_front();
        }
        let saved = std::mem::take(&mut self.saved_now_ns) as f64 / wall_ns.max(1) as f64;
        self.saved.push_back(saved.min(1.0) as f32);
    }

    pub(super) fn saved(&self) -> impl Iterator<Item = f64> + '_ {
        self.saved.iter().map(|share| f64::from(*share))
    }

    pub(super) fn median_late_ns(&self) -> i64 {
        let mut late: Vec<f64> = self.late_ns.iter().map(|late| *late as f64).collect();
        crate::robust::median(&mut late).unwrap_or(0.0) as i64
    }
}
