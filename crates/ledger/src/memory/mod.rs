//! The memory of one process: every byte counted once, from the call that allocated it to the one that freed it.

mod physical;
mod sums;

use crate::captures::Capture;
use crate::process::Taken;
use crate::table::Table;
use crate::timeline::Span;
use gpuwhy_model::{Allocation, Call, Facts, MemoryKind};
use physical::{Effect, Id, Physical};
use std::collections::BTreeMap;
pub(crate) use sums::Held;
use sums::Sums;

/// Live allocations followed of a process. Allocators that pool have thousands.
const MAX_LIVE: usize = 262_144;
/// Allocations that ended lately: records about them may be late.
const MAX_ENDED: usize = 4_096;
const MAX_CAPTURES: usize = 1_024;
/// Allocations marked with their graph when its capture ends.
const MAX_CAPTURED: usize = 65_536;

/// Addresses and physical memory are numbered apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Address(u64),
    Physical(Id),
}

#[derive(Debug)]
pub(crate) struct Memory {
    pid: u32,
    live: Table<Key, Allocation>,
    ended: Table<Key, Ended>,
    physical: Physical,
    sums: Sums,
    /// What was allocated during open captures, by the ledger's number of them: key and time.
    captured: Table<u64, Vec<(Key, u64)>>,
    /// Rows to tell, by address and time.
    changed: BTreeMap<(u64, u64), Allocation>,
}

#[derive(Debug)]
struct Ended {
    row: Allocation,
    /// It was seen to be over before it was told to be freed: that may still come.
    presumed: bool,
}

impl Memory {
    pub(crate) fn new(pid: u32) -> Self {
        Memory::with_room(pid, MAX_LIVE)
    }

    fn with_room(pid: u32, most_live: usize) -> Self {
        Memory {
            pid,
            live: Table::new(most_live),
            ended: Table::new(MAX_ENDED),
            physical: Physical::new(),
            sums: Sums::default(),
            captured: Table::new(MAX_CAPTURES),
            changed: BTreeMap::new(),
        }
    }

    /// Live device and managed memory by stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (Option<i64>, Held)> {
        self.sums.sites()
    }

    /// Something was allocated, perhaps during a capture.
    pub(crate) fn allocated(&mut self, call: &Call, kind: MemoryKind, capture: Option<&Capture>) {
        if call.handle == 0 {
            return;
        }
        let mut row = self.row(call, kind, capture);
        if kind == MemoryKind::Device && capture.is_none() && call.aux != 0 {
            row.pool = Some(format!("{:#x}", call.aux));
        }
        let key = Key::Address(call.handle);
        self.remember_capture(key, &row, capture);
        match self.live.remove(&key) {
            // A late record: another has the address by now.
            Some(newer) if newer.allocated_ns > row.allocated_ns => {
                self.pass(key, row, newer.allocated_ns);
                self.live.insert(key, newer);
            }
            // It must have been freed, though nobody told.
            Some(old) => {
                self.end(key, old, row.allocated_ns, true);
                self.add(key, row);
            }
            None => self.add(key, row),
        }
    }

    /// An address was freed, by whatever call.
    pub(crate) fn freed(&mut self, call: &Call) -> Taken {
        let (key, span) = (Key::Address(call.handle), Span::of(call));
        if call.handle == 0 {
            return Taken::Done;
        }
        // Nobody frees what has not been returned to him yet: such a call is about one before.
        if self.live.get(&key).is_some_and(|row| row.allocated_ns <= span.start_ns)
            && let Some(row) = self.live.remove(&key)
        {
            self.end(key, row, span.end_ns, false);
            return Taken::Done;
        }
        let presumed = self.ended.get_mut(&key);
        match presumed.filter(|ended| ended.presumed && ended.row.allocated_ns <= span.start_ns) {
            Some(ended) => {
                ended.presumed = false;
                ended.row.freed_ns = Some(span.end_ns);
                let row = ended.row.clone();
                self.change(row);
                Taken::Done
            }
            None => Taken::NotYet,
        }
    }

    pub(crate) fn physical_created(&mut self, call: &Call, capture: Option<&Capture>) {
        let span = Span::of(call);
        let (id, effect) = self.physical.create(call.handle, span);
        let row = self.row(call, MemoryKind::Device, capture);
        let key = Key::Physical(id);
        self.remember_capture(key, &row, capture);
        if effect.dead.contains(&id) {
            self.pass(key, row, span.end_ns);
        } else {
            self.take_effect(effect, span);
            self.add(key, row);
        }
    }

    /// The memory `aux` gets the address `handle`.
    pub(crate) fn physical_mapped(&mut self, call: &Call) -> Taken {
        let effect = self.physical.map(call.aux, call.handle, call.bytes, Span::of(call));
        self.take_effect_if_known(effect, call)
    }

    pub(crate) fn physical_unmapped(&mut self, call: &Call) {
        let effect = self.physical.unmap(call.handle, call.bytes, Span::of(call));
        self.take_effect(effect, Span::of(call));
    }

    pub(crate) fn physical_released(&mut self, call: &Call) -> Taken {
        let effect = self.physical.release(call.handle, Span::of(call));
        self.take_effect_if_known(effect, call)
    }

    pub(crate) fn physical_retained(&mut self, call: &Call) -> Taken {
        let effect = self.physical.retain(call.handle, call.aux, Span::of(call));
        self.take_effect_if_known(effect, call)
    }

    pub(crate) fn failed(&mut self, call: &Call, kind: MemoryKind) {
        self.sums.failed(call.device, kind, Span::of(call).end_ns);
    }

    /// A capture became a graph: what was allocated for it is marked so.
    pub(crate) fn capture_ended(&mut self, capture: &Capture) {
        let captured = self.captured.remove(&capture.id).unwrap_or_default();
        if capture.graph == 0 {
            return;
        }
        for (key, allocated_ns) in captured {
            let live = self.live.get_mut(&key);
            let ended = self.ended.get_mut(&key).map(|ended| &mut ended.row);
            let mut rows = live.into_iter().chain(ended);
            if let Some(row) = rows.find(|row| row.allocated_ns == allocated_ns) {
                row.pool = Some(capture.pool());
                let row = row.clone();
                self.change(row);
            }
        }
    }

    /// The process ended, and gave all back; what it freed itself may still be told.
    pub(crate) fn close(&mut self, at_ns: u64) {
        let keys: Vec<Key> = self.live.keys().copied().collect();
        for key in keys {
            if let Some(row) = self.live.remove(&key) {
                self.end(key, row, at_ns, true);
            }
        }
    }

    pub(crate) fn emit(&mut self, facts: &mut Facts) {
        facts.allocations.extend(std::mem::take(&mut self.changed).into_values());
        self.sums.emit(self.pid, facts);
    }

    fn row(&self, call: &Call, kind: MemoryKind, capture: Option<&Capture>) -> Allocation {
        Allocation {
            pid: self.pid,
            address: call.handle,
            bytes: call.bytes,
            allocated_ns: Span::of(call).end_ns,
            freed_ns: None,
            tid: call.tid,
            op: call.op,
            kind,
            gpu: call.device,
            pool: capture.map(Capture::pool),
            stack_id: call.stack_id,
        }
    }

    fn remember_capture(&mut self, key: Key, row: &Allocation, capture: Option<&Capture>) {
        if let Some(capture) = capture.filter(|capture| capture.end.is_none()) {
            let captured = self.captured.get_or_insert_with(capture.id, Vec::new);
            if captured.len() < MAX_CAPTURED {
                captured.push((key, row.allocated_ns));
            }
        }
    }

    fn take_effect_if_known(&mut self, effect: Option<Effect>, call: &Call) -> Taken {
        match effect {
            Some(effect) => {
                self.take_effect(effect, Span::of(call));
                Taken::Done
            }
            None => Taken::NotYet,
        }
    }

    fn take_effect(&mut self, effect: Effect, span: Span) {
        if let Some(id) = effect.revived
            && let Some(ended) = self.ended.remove(&Key::Physical(id))
        {
            let row = Allocation { freed_ns: None, ..ended.row };
            self.sums.not_freed(&row);
            self.keep(Key::Physical(id), row, span.end_ns);
        }
        for id in effect.dead {
            let key = Key::Physical(id);
            if let Some(row) = self.live.remove(&key) {
                self.end(key, row, span.end_ns, false);
            }
        }
    }

    fn add(&mut self, key: Key, row: Allocation) {
        let at_ns = row.allocated_ns;
        self.sums.allocated(&row);
        self.keep(key, row, at_ns);
    }

    fn keep(&mut self, key: Key, row: Allocation, at_ns: u64) {
        self.sums.hold(&row, at_ns);
        self.change(row.clone());
        if let Some((_, forgotten)) = self.live.insert(key, row) {
            self.sums.let_go(&forgotten, at_ns);
        }
    }

    /// It was over before its record came.
    fn pass(&mut self, key: Key, mut row: Allocation, at_ns: u64) {
        row.freed_ns = Some(at_ns);
        self.sums.allocated(&row);
        self.sums.freed(&row);
        self.change(row.clone());
        self.ended.insert(key, Ended { row, presumed: true });
    }

    fn end(&mut self, key: Key, mut row: Allocation, at_ns: u64, presumed: bool) {
        let freed_ns = at_ns.max(row.allocated_ns);
        row.freed_ns = Some(freed_ns);
        self.sums.freed(&row);
        self.sums.let_go(&row, freed_ns);
        self.change(row.clone());
        self.ended.insert(key, Ended { row, presumed });
    }

    fn change(&mut self, row: Allocation) {
        self.changed.insert((row.address, row.allocated_ns), row);
    }
}

#[cfg(test)]
mod tests;
