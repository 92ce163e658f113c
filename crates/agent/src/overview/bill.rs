//! What being watched cost each process.

use gpuwhy_model::{Bill, Level};

/// A process's bill so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BillSum {
    pub calls: u64,
    pub cost_ns: u64,
    /// Of the thread that paid most, in percent of a window: summed with the windows' lengths, and the windows.
    worst_ns: f64,
    first_ns: u64,
    last_ns: u64,
    pub level: Level,
}

impl BillSum {
    pub(super) fn take(&mut self, bill: &Bill) {
        if self.calls == 0 {
            self.first_ns = bill.window_start_ns;
        }
        self.calls += bill.calls;
        self.cost_ns += bill.cost_ns;
        self.worst_ns += bill.worst_thread_pct / 100.0 * bill.window_ns as f64;
        self.last_ns = self.last_ns.max(bill.window_start_ns + bill.window_ns);
        self.level = self.level.max(bill.level);
    }

    /// Of the thread that paid most, in percent of the time since its first call.
    pub fn share_pct(&self) -> f64 {
        100.0 * self.worst_ns / self.last_ns.saturating_sub(self.first_ns).max(1) as f64
    }
}
