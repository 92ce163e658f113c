//! Running totals of a trace, by process and operation: what the live screen shows and the summary is made from.

use gpuwhy_model::{Batch, Blame, CallWindow, Histogram, OpId, Part, Wait};
use std::collections::HashMap;

/// Everything known about one operation of one process.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub count: u64,
    pub errors: u64,
    pub kept: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub blame: Blame,
    pub hist: Histogram,
    /// Who was behind the waits: time and number by part, process and name.
    pub by: HashMap<(Part, u32, String), (u64, u64)>,
}

impl Tally {
    fn add_window(&mut self, window: &CallWindow) {
        self.count += window.count;
        self.errors += window.errors;
        self.kept += window.kept;
        self.bytes += window.bytes;
        self.sum_ns += window.sum_ns;
        self.max_ns = self.max_ns.max(window.max_ns);
        self.blame.add(&window.blame);
        self.hist.merge(&window.hist);
    }

    fn add_wait(&mut self, wait: &Wait) {
        let (ns, count) = self.by.entry((wait.part, wait.by_pid, wait.by_comm.clone())).or_default();
        *ns += wait.ns;
        *count += wait.count;
    }

    pub fn merge(&mut self, other: &Tally) {
        self.count += other.count;
        self.errors += other.errors;
        self.kept += other.kept;
        self.bytes += other.bytes;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.blame.add(&other.blame);
        self.hist.merge(&other.hist);
        for (who, (ns, count)) in &other.by {
            let mine = self.by.entry(who.clone()).or_default();
            mine.0 += ns;
            mine.1 += count;
        }
    }

    /// A quantile of all calls, never above the longest one.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.hist.quantile_ns(q).min(self.max_ns)
    }
}

/// The totals of a trace.
#[derive(Debug, Clone, Default)]
pub struct Tallies {
    by_process: HashMap<(u32, OpId), Tally>,
}

impl Tallies {
    /// Stands for processes that have ended and were forgotten.
    pub const ENDED: u32 = 0;

    pub fn add(&mut self, batch: &Batch) {
        for window in &batch.windows {
            self.by_process.entry((window.pid, window.op)).or_default().add_window(window);
        }
        for wait in batch.waits.iter().filter(|wait| wait.op != OpId::NONE) {
            self.by_process.entry((wait.pid, wait.op)).or_default().add_wait(wait);
        }
    }

    /// Moves what is known of ended processes into one entry without a process, so that a long trace of many short
    /// ones stays small; totals by operation stay exact.
    pub fn forget(&mut self, ended: &[u32]) {
        let keys: Vec<(u32, OpId)> =
            self.by_process.keys().filter(|(pid, _)| ended.contains(pid)).copied().collect();
        for key in keys {
            if let Some(tally) = self.by_process.remove(&key) {
                self.by_process.entry((Tallies::ENDED, key.1)).or_default().merge(&tally);
            }
        }
    }

    pub fn by_process(&self) -> impl Iterator<Item = (u32, OpId, &Tally)> {
        self.by_process.iter().map(|((pid, op), tally)| (*pid, *op, tally))
    }

    /// One tally for each operation, over all processes.
    pub fn by_op(&self) -> HashMap<OpId, Tally> {
        let mut ops: HashMap<OpId, Tally> = HashMap::new();
        for ((_, op), tally) in &self.by_process {
            ops.entry(*op).or_default().merge(tally);
        }
        ops
    }

    pub fn calls(&self) -> u64 {
        self.by_process.values().map(|tally| tally.count).sum()
    }

    pub fn kept(&self) -> u64 {
        self.by_process.values().map(|tally| tally.kept).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(pid: u32, count: u64) -> CallWindow {
        CallWindow {
            window_start_ns: 0,
            window_ns: 1,
            pid,
            tid: pid,
            op: OpId(1),
            direction: None,
            count,
            errors: 0,
            kept: 0,
            bytes: 0,
            sum_ns: count * 10,
            min_ns: 10,
            max_ns: 10,
            blame: Blame::default(),
            hist: Histogram::default(),
            cost_ns: 0,
            beside_ns: 0,
            slice: 0,
        }
    }

    #[test]
    fn forgotten_processes_stay_in_the_totals() {
        let mut tallies = Tallies::default();
        tallies.add(&Batch { windows: vec![window(7, 3), window(8, 4), window(9, 5)], ..Batch::default() });
        tallies.forget(&[7, 8]);
        assert_eq!(tallies.calls(), 12);
        assert_eq!(tallies.by_op()[&OpId(1)].count, 12);
        let mut pids: Vec<u32> = tallies.by_process().map(|(pid, _, _)| pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, vec![Tallies::ENDED, 9]);
    }
}
