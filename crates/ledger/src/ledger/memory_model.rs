//! Random programs against a model that simply counts references, in order and out of it.

use super::*;
use crate::testing::{Random, call, calls, handle, ops};
use std::collections::{BTreeMap, BTreeSet};

const STEPS: usize = 3_000;
const STEP_NS: u64 = 10;

/// What a program did, and what must have come of it.
#[derive(Default)]
struct Program {
    calls: Vec<Call>,
    now_ns: u64,
    /// Bytes by address.
    blocks: BTreeMap<u64, u64>,
    /// Bytes and references by number.
    physical: BTreeMap<u64, (u64, u64)>,
    /// Number of the physical memory by handle, once for each time it was given.
    handles: Vec<(u64, u64)>,
    /// Number of the physical memory by address.
    mappings: BTreeMap<u64, u64>,
    created: u64,
    live_bytes: u64,
    peak_bytes: u64,
    allocated_bytes: u64,
    freed_bytes: u64,
}

impl Program {
    /// The fewer addresses and handles there are, the sooner they are used again.
    fn random(seed: u64, addresses: u64, handles: u64) -> Self {
        let (mut program, mut random) = (Program { now_ns: 1_000, ..Program::default() }, Random::new(seed));
        for _ in 0..STEPS {
            program.now_ns += STEP_NS;
            program.step(addresses, handles, &mut random);
        }
        program
    }

    fn call(&mut self, name: &str, handle_: u64, aux: u64, bytes: u64) {
        self.calls.push(Call { aux, bytes, ..handle(name, self.now_ns, handle_) });
    }

    fn step(&mut self, addresses: u64, handles: u64, random: &mut Random) {
        let (address, bytes) = (0x1000 * (1 + random.below(addresses)), 1 + random.below(100));
        let handle = 1 + random.below(handles);
        match random.below(9) {
            0 | 1 if !self.blocks.contains_key(&address) => {
                self.blocks.insert(address, bytes);
                self.add(bytes);
                self.call("cudaMalloc", address, 0, bytes);
            }
            2 => {
                if let Some(bytes) = self.blocks.remove(&address) {
                    self.remove(bytes);
                    self.call("cudaFree", address, 0, 0);
                }
            }
            3 => self.calls.push(Call { ret: 2, bytes, ..call("cudaMalloc", self.now_ns) }),
            4 if !self.handles.iter().any(|(known, _)| *known == handle) => {
                self.created += 1;
                self.physical.insert(self.created, (bytes, 1));
                self.handles.push((handle, self.created));
                self.add(bytes);
                self.call("cuMemCreate", handle, 0, bytes);
            }
            5 => self.map(address, random),
            6 => self.unmap(address, 0x1000 * (1 + random.below(3))),
            7 => self.release(random),
            8 => self.retain(address, handle),
            _ => {}
        }
    }

    fn map(&mut self, address: u64, random: &mut Random) {
        if self.handles.is_empty() || self.mappings.contains_key(&address) {
            return;
        }
        let (handle, id) = self.handles[random.below(self.handles.len() as u64) as usize];
        self.mappings.insert(address, id);
        self.physical.entry(id).and_modify(|(_, references)| *references += 1);
        self.call("cuMemMap", address, handle, 0x1000);
    }

    fn unmap(&mut self, address: u64, bytes: u64) {
        let covered: Vec<u64> = self.mappings.range(address..address + bytes).map(|(at, _)| *at).collect();
        if covered.is_empty() {
            return;
        }
        for at in covered {
            let id = self.mappings.remove(&at).unwrap();
            self.drop_reference(id);
        }
        self.call("cuMemUnmap", address, 0, bytes);
    }

    fn release(&mut self, random: &mut Random) {
        if !self.handles.is_empty() {
            let at = random.below(self.handles.len() as u64) as usize;
            let (handle, id) = self.handles.remove(at);
            self.drop_reference(id);
            self.call("cuMemRelease", handle, 0, 0);
        }
    }

    fn retain(&mut self, address: u64, handle: u64) {
        let Some(id) = self.mappings.get(&address).copied() else { return };
        if self.handles.iter().all(|(known, of)| *known != handle || *of == id) {
            self.handles.push((handle, id));
            self.physical.entry(id).and_modify(|(_, references)| *references += 1);
            self.call("cuMemRetainAllocationHandle", handle, address, 0);
        }
    }

    fn drop_reference(&mut self, id: u64) {
        let (bytes, references) = self.physical[&id];
        if references == 1 {
            self.physical.remove(&id);
            self.remove(bytes);
        } else {
            self.physical.insert(id, (bytes, references - 1));
        }
    }

    fn add(&mut self, bytes: u64) {
        self.live_bytes += bytes;
        self.allocated_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn remove(&mut self, bytes: u64) {
        self.live_bytes -= bytes;
        self.freed_bytes += bytes;
    }

    fn live_count(&self) -> u64 {
        (self.blocks.len() + self.physical.len()) as u64
    }

    fn failures(&self) -> usize {
        self.calls.iter().filter(|call| call.ret != 0).count()
    }
}

/// What the ledger said in the end.
#[derive(Default)]
struct Reported {
    /// Bytes of live rows, by address and time.
    live: BTreeMap<(u64, u64), u64>,
    memory: Option<gpuwhy_model::MemoryUse>,
    failures: usize,
}

impl Reported {
    fn take(&mut self, ledger: &mut Ledger, batch: Vec<Call>) {
        let facts = ledger.take(&calls(batch));
        let keys: BTreeSet<_> = facts.allocations.iter().map(|row| (row.address, row.allocated_ns)).collect();
        assert_eq!(keys.len(), facts.allocations.len(), "a row was told twice");
        for row in facts.allocations {
            let key = (row.address, row.allocated_ns);
            match row.freed_ns {
                Some(freed_ns) => {
                    assert!(freed_ns >= row.allocated_ns);
                    self.live.remove(&key);
                }
                None => {
                    self.live.insert(key, row.bytes);
                }
            }
        }
        self.failures += facts.memory_failures.len();
        assert!(facts.memory.len() <= 1);
        self.memory = facts.memory.into_iter().next().or(self.memory.take());
    }

    fn assert_is(&self, program: &Program, peak_is_exact: bool, seed: u64) {
        let memory = self.memory.as_ref().unwrap();
        assert_eq!(memory.live_bytes, program.live_bytes, "live, seed {seed}");
        assert_eq!(memory.live_count, program.live_count(), "count, seed {seed}");
        assert_eq!(memory.allocated_bytes, program.allocated_bytes, "allocated, seed {seed}");
        assert_eq!(memory.freed_bytes, program.freed_bytes, "freed, seed {seed}");
        assert_eq!(self.live.values().sum::<u64>(), program.live_bytes, "rows, seed {seed}");
        assert_eq!((self.failures, memory.failures), (program.failures(), program.failures() as u64));
        if peak_is_exact {
            assert_eq!(memory.peak_bytes, program.peak_bytes, "peak, seed {seed}");
        }
    }
}

fn shuffle(calls: &mut [Call], random: &mut Random) {
    for i in (1..calls.len()).rev() {
        calls.swap(i, random.below(i as u64 + 1) as usize);
    }
}

#[test]
fn batches_in_any_order_within() {
    for seed in 1..=20 {
        let (program, mut random) = (Program::random(seed, 12, 6), Random::new(seed + 100));
        let (mut ledger, mut reported) = (Ledger::new(&ops()), Reported::default());
        let mut rest = program.calls.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + random.below(40) as usize));
            let mut batch = now.to_vec();
            shuffle(&mut batch, &mut random);
            reported.take(&mut ledger, batch);
            rest = later;
        }
        reported.assert_is(&program, true, seed);
        assert_eq!(ledger.unknown_frees(), 0);
    }
}

#[test]
fn records_that_come_a_batch_late() {
    for seed in 1..=40 {
        let (program, mut random) = (Program::random(seed, 60, 30), Random::new(seed + 100));
        let (mut ledger, mut reported) = (Ledger::new(&ops()), Reported::default());
        let (mut late, mut batch) = (Vec::new(), Vec::new());
        for (i, call) in program.calls.iter().enumerate() {
            if random.below(8) == 0 {
                late.push(call.clone());
            } else {
                batch.push(call.clone());
            }
            if i % 10 == 9 {
                reported.take(&mut ledger, std::mem::replace(&mut batch, std::mem::take(&mut late)));
            }
        }
        batch.append(&mut late);
        reported.take(&mut ledger, batch);
        reported.take(&mut ledger, Vec::new());
        reported.assert_is(&program, false, seed);
    }
}
