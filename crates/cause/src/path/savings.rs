//! What a loop would take less without a part of its path.

use super::{Key, Part, ProcessPath, Scale};
use gpuwhy_model::Cause;

impl ProcessPath {
    /// What all steps together would take less without a part, at least and at most. `pid`: of the part's thread.
    pub(crate) fn saves_ns(&self, scale: &Scale, key: &Key, part: &Part, pid: u32) -> [u64; 2] {
        // Who waits for room in a full queue keeps the GPU waiting for nothing.
        if key.class == Cause::GpuWait && part.launches {
            return [0, 0];
        }
        let removable_ns = match key.class {
            Cause::GpuWait => part.ns.min(self.wait_in_vain_ns(scale)),
            _ => self.removable_ns(key, part, pid),
        };
        let by_parts = scale.saves_ns(key.class, removable_ns, part.samples);
        let of_class: u64 = self
            .loop_parts
            .iter()
            .filter(|(other, _)| (other.class, other.tid) == (key.class, key.tid))
            .map(|(_, part)| part.ns)
            .sum();
        let difference = self.differences.get(&(key.class, key.tid));
        // One stall, or a start, is no step.
        let is_of_steps = scale.count > 1.0 && key.class != Cause::LaunchBound;
        if let Some(difference) = difference.filter(|_| is_of_steps) {
            // Of several parts of one class and thread each has its share.
            let share = part.ns as f64 / of_class.max(part.ns).max(1) as f64;
            let of = |ns: f64| ((ns * share * scale.count).max(0.0) as u64).min(scale.whole_ns);
            let by_steps =
                [difference.saves_ns - difference.error_ns, difference.saves_ns + difference.error_ns];
            // Steps that are taken for one kind and are of the other make the difference smaller, never larger.
            let [least, most] = by_steps.map(of);
            return if least + most > by_parts[0] + by_parts[1] { [least, most] } else { by_parts };
        }
        by_parts
    }

    /// Of the waits for the GPU, what need not be. While the GPU works, a wait costs what could be done meanwhile, and that is not
    /// launching: who launches and waits in turns is built that way. A wait for longer than the GPU works is in vain.
    fn wait_in_vain_ns(&self, scale: &Scale) -> u64 {
        let of = |is_it: &dyn Fn(Cause) -> bool| -> u64 {
            self.loop_parts.iter().filter(|(key, _)| is_it(key.class)).map(|(_, part)| part.ns).sum()
        };
        let waits = of(&|class| class == Cause::GpuWait);
        let beside = of(&|class| !matches!(class, Cause::GpuWait | Cause::LaunchBound));
        let busy = scale.busy_pct.map_or(waits, |pct| (scale.whole_ns as f64 * pct / 100.0) as u64);
        waits.saturating_sub(busy) + waits.min(busy).min(beside)
    }

    /// How long the process waited in all for a thread at the end of the path.
    fn waited_for(&self, tid: u32, pid: u32) -> Option<u64> {
        // A worker answers through several of its threads.
        if let Some(ns) = self.waits_for.get(&pid).filter(|_| pid != self.pid) {
            return Some(*ns);
        }
        let (mut way, mut hops) = (self.ways.get(&tid)?, 0);
        while way.from_tid != self.root && hops < self.ways.len() {
            way = self.ways.get(&way.from_tid)?;
            hops += 1;
        }
        Some(way.ns)
    }

    /// What removing a part would take from the path. Without what keeps another thread, that one is ready earlier: all of
    /// the wait for it goes, not only what that thread did meanwhile.
    fn removable_ns(&self, key: &Key, part: &Part, pid: u32) -> u64 {
        let whole = self.whole.get(&(key.tid, key.class)).copied().unwrap_or(0);
        match self.waited_for(key.tid, pid) {
            Some(waited) if key.tid != self.root => whole.min(waited).max(part.ns),
            _ => part.ns,
        }
    }
}
