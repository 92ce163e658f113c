//! What being watched cost each process.

use gpuwhy_model::{Level, TracingCost};

/// A process's bill so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CostSum {
    pub calls: u64,
    pub cost_ns: u64,
    /// Of the thread that paid most, in percent of a window: summed with the windows' lengths, and the windows.
    worst_ns: f64,
    first_ns: u64,
    last_ns: u64,
    pub level: Level,
}

impl CostSum {
    pub(super) fn take(&mut self, cost: &TracingCost) {
        if self.calls == 0 {
            self.first_ns = cost.window_start_ns;
        }
        self.calls += cost.calls;
        self.cost_ns += cost.cost_ns;
        self.worst_ns += cost.worst_thread_pct / 100.0 * cost.window_ns as f64;
        self.last_ns = self.last_ns.max(cost.window_start_ns + cost.window_ns);
        self.level = self.level.max(cost.level);
    }

    /// Of the thread that paid most, in percent of the time since its first call.
    pub fn share_pct(&self) -> f64 {
        100.0 * self.worst_ns / self.last_ns.saturating_sub(self.first_ns).max(1) as f64
    }
}
