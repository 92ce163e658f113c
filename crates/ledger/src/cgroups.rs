//! Which control group each process is in.

use crate::table::Table;
use gpuwhy_model::{Batch, ProcessEventKind};

const MAX_PROCESSES: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Cgroups {
    by_pid: Table<u32, u64>,
}

impl Cgroups {
    pub(crate) fn new() -> Self {
        Cgroups { by_pid: Table::new(MAX_PROCESSES) }
    }

    /// 0 where nobody has told.
    pub(crate) fn of(&self, pid: u32) -> u64 {
        self.by_pid.get(&pid).copied().unwrap_or(0)
    }

    pub(crate) fn learn(&mut self, batch: &Batch) {
        for event in &batch.process_events {
            self.set(event.pid, event.cgroup_id);
            if event.kind == ProcessEventKind::Fork {
                self.set(event.child, event.cgroup_id);
            }
        }
        for process in &batch.processes {
            self.set(process.pid, process.cgroup_id);
        }
    }

    fn set(&mut self, pid: u32, cgroup_id: u64) {
        if cgroup_id != 0 && self.of(pid) != cgroup_id {
            self.by_pid.insert(pid, cgroup_id);
        }
    }
}
