//! How much memory a process has, by GPU and kind, and from which call sites.

use gpuwhy_model::{Allocation, Facts, MemoryKind, MemoryUse};
use std::collections::{BTreeMap, HashMap};

/// What one call site holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

impl Held {
    /// Sizes are a stranger's data: their sum may be anything.
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += 1;
    }

    fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.count = self.count.saturating_sub(1);
    }
}

#[derive(Debug, Default)]
struct Sum {
    live: Held,
    peak_bytes: u64,
    allocated_bytes: u64,
    freed_bytes: u64,
    failures: u64,
    changed_ns: u64,
    changed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Sums {
    sums: BTreeMap<(Option<u16>, MemoryKind), Sum>,
    /// Device and managed memory by stack; entries go with their last allocation.
    sites: HashMap<Option<i64>, Held>,
}

impl Sums {
    pub(crate) fn sites(&self) -> impl Iterator<Item = (Option<i64>, Held)> {
        self.sites.iter().map(|(stack_id, held)| (*stack_id, *held))
    }

    pub(crate) fn allocated(&mut self, row: &Allocation) {
        let sum = self.changed(row.gpu, row.kind, row.allocated_ns);
        sum.allocated_bytes = sum.allocated_bytes.saturating_add(row.bytes);
    }

    pub(crate) fn freed(&mut self, row: &Allocation) {
        let sum = self.changed(row.gpu, row.kind, row.freed_ns.unwrap_or(0));
        sum.freed_bytes = sum.freed_bytes.saturating_add(row.bytes);
    }

    /// It was counted as freed, and is not.
    pub(crate) fn not_freed(&mut self, row: &Allocation) {
        let sum = self.changed(row.gpu, row.kind, 0);
        sum.freed_bytes = sum.freed_bytes.saturating_sub(row.bytes);
    }

    /// From now on it is live.
    pub(crate) fn hold(&mut self, row: &Allocation, at_ns: u64) {
        let sum = self.changed(row.gpu, row.kind, at_ns);
        sum.live.add(row.bytes);
        sum.peak_bytes = sum.peak_bytes.max(sum.live.bytes);
        if is_on_device(row.kind) {
            self.sites.entry(row.stack_id).or_default().add(row.bytes);
        }
    }

    /// It is live no more, or was forgotten, and nobody knows.
    pub(crate) fn let_go(&mut self, row: &Allocation, at_ns: u64) {
        let sum = self.changed(row.gpu, row.kind, at_ns);
        sum.live.remove(row.bytes);
        if is_on_device(row.kind)
            && let Some(held) = self.sites.get_mut(&row.stack_id)
        {
            held.remove(row.bytes);
            if held.count == 0 {
                self.sites.remove(&row.stack_id);
            }
        }
    }

    pub(crate) fn failed(&mut self, gpu: Option<u16>, kind: MemoryKind, at_ns: u64) {
        self.changed(gpu, kind, at_ns).failures += 1;
    }

    pub(crate) fn emit(&mut self, pid: u32, facts: &mut Facts) {
        for ((gpu, kind), sum) in &mut self.sums {
            if std::mem::take(&mut sum.changed) {
                facts.memory.push(MemoryUse {
                    time_ns: sum.changed_ns,
                    pid,
                    gpu: *gpu,
                    kind: *kind,
                    live_bytes: sum.live.bytes,
                    peak_bytes: sum.peak_bytes,
                    live_count: sum.live.count,
                    allocated_bytes: sum.allocated_bytes,
                    freed_bytes: sum.freed_bytes,
                    failures: sum.failures,
                });
            }
        }
    }

    fn changed(&mut self, gpu: Option<u16>, kind: MemoryKind, at_ns: u64) -> &mut Sum {
        let sum = self.sums.entry((gpu, kind)).or_default();
        sum.changed = true;
        sum.changed_ns = sum.changed_ns.max(at_ns);
        sum
    }
}

fn is_on_device(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Device | MemoryKind::Managed)
}
