//! Memory from hand-made calls: every way to allocate and to free.

use super::*;
use crate::captures::Captures;
use crate::testing::{PID, call, handle, op};

fn alloc(address: u64, bytes: u64, end_ns: u64) -> Call {
    Call { bytes, device: Some(0), ..handle("cudaMalloc", end_ns, address) }
}

fn free(address: u64, end_ns: u64) -> Call {
    handle("cudaFree", end_ns, address)
}

fn device(memory: &mut Memory, call: &Call) {
    memory.allocated(call, MemoryKind::Device, None);
}

fn reported(memory: &mut Memory) -> Facts {
    let mut facts = Facts::default();
    memory.emit(&mut facts);
    facts
}

/// Address, time of allocation and of freeing.
fn rows(facts: &Facts) -> Vec<(u64, u64, Option<u64>)> {
    facts.allocations.iter().map(|row| (row.address, row.allocated_ns, row.freed_ns)).collect()
}

/// Live and peak bytes, allocated and freed.
fn sums(facts: &Facts) -> Vec<(u64, u64, u64, u64)> {
    let sum = |sum: &gpuwhy_model::MemoryUse| {
        (sum.live_bytes, sum.peak_bytes, sum.allocated_bytes, sum.freed_bytes)
    };
    facts.memory.iter().map(sum).collect()
}

#[test]
fn memory_is_told_when_allocated_and_when_freed() {
    let mut memory = Memory::new(PID);
    let call = Call { aux: 0x99, stack_id: Some(4), tid: 8, ..alloc(0x10, 100, 10) };
    device(&mut memory, &call);
    let facts = reported(&mut memory);
    let row = Allocation {
        pid: PID,
        address: 0x10,
        bytes: 100,
        allocated_ns: 10,
        freed_ns: None,
        tid: 8,
        op: op("cudaMalloc"),
        kind: MemoryKind::Device,
        gpu: Some(0),
        pool: Some("0x99".into()),
        stack_id: Some(4),
    };
    assert_eq!(facts.allocations, [row]);
    assert_eq!((facts.memory[0].time_ns, sums(&facts)), (10, vec![(100, 100, 100, 0)]));
    assert_eq!(memory.sites().collect::<Vec<_>>(), [(Some(4), Held { bytes: 100, count: 1 })]);

    assert_eq!(memory.freed(&free(0x10, 20)), Taken::Done);
    let facts = reported(&mut memory);
    assert_eq!(rows(&facts), [(0x10, 10, Some(20))]);
    assert_eq!((facts.memory[0].time_ns, sums(&facts)), (20, vec![(0, 100, 100, 100)]));
    assert_eq!(memory.sites().count(), 0);
    assert_eq!(reported(&mut memory), Facts::default());
}

#[test]
fn kinds_and_gpus_are_apart() {
    let mut memory = Memory::new(PID);
    device(&mut memory, &alloc(0x10, 1, 10));
    device(&mut memory, &Call { device: Some(1), ..alloc(0x20, 2, 11) });
    memory.allocated(&alloc(0x30, 4, 12), MemoryKind::Managed, None);
    memory.allocated(&alloc(0x40, 8, 13), MemoryKind::Host, None);
    memory.allocated(&alloc(0x50, 16, 14), MemoryKind::Registered, None);
    let facts = reported(&mut memory);
    let seen: Vec<_> = facts.memory.iter().map(|sum| (sum.gpu, sum.kind, sum.live_bytes)).collect();
    let expected = [
        (Some(0), MemoryKind::Device, 1),
        (Some(0), MemoryKind::Managed, 4),
        (Some(0), MemoryKind::Host, 8),
        (Some(0), MemoryKind::Registered, 16),
        (Some(1), MemoryKind::Device, 2),
    ];
    assert_eq!(seen, expected);
    let on_gpus: u64 = memory.sites().map(|(_, held)| held.bytes).sum();
    assert_eq!(on_gpus, 7);
}

#[test]
fn nothing_is_nothing() {
    let mut memory = Memory::new(PID);
    device(&mut memory, &alloc(0, 100, 10));
    assert_eq!(memory.freed(&free(0, 20)), Taken::Done);
    assert_eq!(memory.freed(&free(0x77, 20)), Taken::NotYet);
    assert_eq!(reported(&mut memory), Facts::default());
}

/// Thread A frees X; before its call returns, thread B is given X.
#[test]
fn an_address_may_be_given_again_while_its_free_returns() {
    let mut memory = Memory::new(PID);
    device(&mut memory, &alloc(0x10, 100, 10));
    device(&mut memory, &alloc(0x10, 100, 180));
    let facts = reported(&mut memory);
    assert_eq!(rows(&facts), [(0x10, 10, Some(180)), (0x10, 180, None)]);
    assert_eq!(sums(&facts), [(100, 100, 200, 100)]);
    let slow = Call { start_ns: 100, duration_ns: 100, ..free(0x10, 200) };
    assert_eq!(memory.freed(&slow), Taken::Done);
    let facts = reported(&mut memory);
    assert_eq!((rows(&facts), facts.memory.len()), (vec![(0x10, 10, Some(200))], 0));
    assert_eq!(memory.freed(&slow), Taken::NotYet);
    assert_eq!(memory.freed(&free(0x10, 300)), Taken::Done);
}

#[test]
fn an_allocation_told_too_late_takes_nothing_away() {
    let mut memory = Memory::new(PID);
    device(&mut memory, &alloc(0x10, 100, 150));
    device(&mut memory, &alloc(0x10, 100, 50));
    assert_eq!(memory.freed(&free(0x10, 100)), Taken::Done);
    let facts = reported(&mut memory);
    assert_eq!(rows(&facts), [(0x10, 50, Some(100)), (0x10, 150, None)]);
    assert_eq!(sums(&facts), [(100, 100, 200, 100)]);
}

#[test]
fn physical_memory_counts_once() {
    let mut memory = Memory::new(PID);
    memory.physical_created(&Call { aux: 3, ..alloc(0xa, 64, 10) }, None);
    let map = |address, end_ns| Call { aux: 0xa, bytes: 64, ..handle("cuMemMap", end_ns, address) };
    assert_eq!(memory.physical_mapped(&map(0x1000, 20)), Taken::Done);
    assert_eq!(memory.physical_mapped(&map(0x2000, 21)), Taken::Done);
    assert_eq!(memory.physical_released(&handle("cuMemRelease", 30, 0xa)), Taken::Done);
    let facts = reported(&mut memory);
    assert_eq!((rows(&facts), sums(&facts)), (vec![(0xa, 10, None)], vec![(64, 64, 64, 0)]));
    assert_eq!(facts.allocations[0].pool, None);
    let unmap = |address, end_ns| Call { bytes: 64, ..handle("cuMemUnmap", end_ns, address) };
    memory.physical_unmapped(&unmap(0x1000, 40));
    memory.physical_unmapped(&unmap(0x1000, 41));
    assert_eq!(reported(&mut memory), Facts::default());
    memory.physical_unmapped(&unmap(0x2000, 50));
    let facts = reported(&mut memory);
    assert_eq!((rows(&facts), sums(&facts)), (vec![(0xa, 10, Some(50))], vec![(0, 64, 64, 64)]));
    assert_eq!(memory.physical_retained(&Call { aux: 0x2000, ..alloc(0xb, 0, 60) }), Taken::NotYet);
}

#[test]
fn what_is_allocated_during_a_capture_is_the_graphs() {
    let (mut memory, mut captures) = (Memory::new(PID), Captures::default());
    captures.begin(&Call { capture: 5, ..call("cudaStreamBeginCapture", 10) });
    for (address, end_ns) in [(0x10, 20), (0x20, 21)] {
        let call = alloc(address, 1, end_ns);
        memory.allocated(&call, MemoryKind::Device, captures.of(&call).as_ref());
    }
    memory.freed(&free(0x20, 30));
    let pools = |facts: &Facts| facts.allocations.iter().map(|row| row.pool.clone()).collect::<Vec<_>>();
    let pool = |pool: &str| Some(pool.to_string());
    assert_eq!(pools(&reported(&mut memory)), [pool("capture:5"), pool("capture:5")]);
    let end = Call { capture: 5, ..handle("cudaStreamEndCapture", 40, 0xf0) };
    memory.capture_ended(&captures.end(&end));
    let facts = reported(&mut memory);
    assert_eq!(pools(&facts), [pool("graph:0xf0"), pool("graph:0xf0")]);
    assert_eq!(rows(&facts), [(0x10, 20, None), (0x20, 21, Some(30))]);
    // Told after the end, and known at once.
    let late = alloc(0x30, 1, 35);
    memory.allocated(&late, MemoryKind::Device, captures.of(&late).as_ref());
    assert_eq!(pools(&reported(&mut memory)), [pool("graph:0xf0")]);
}

#[test]
fn a_process_gives_all_back_at_its_end() {
    let mut memory = Memory::new(PID);
    device(&mut memory, &alloc(0x10, 100, 10));
    memory.physical_created(&alloc(0xa, 64, 11), None);
    memory.close(500);
    let facts = reported(&mut memory);
    assert_eq!(rows(&facts), [(0xa, 11, Some(500)), (0x10, 10, Some(500))]);
    assert_eq!((facts.memory[0].time_ns, sums(&facts)), (500, vec![(0, 164, 164, 164)]));
}

#[test]
fn the_oldest_allocations_are_forgotten() {
    let mut memory = Memory::with_room(PID, 100);
    for i in 0..102 {
        device(&mut memory, &alloc(0x1000 + i, 1, 10 + i));
    }
    let facts = reported(&mut memory);
    assert_eq!((facts.memory[0].live_count, facts.memory[0].live_bytes), (100, 100));
    assert_eq!((facts.memory[0].allocated_bytes, facts.memory[0].freed_bytes), (102, 0));
    assert_eq!(memory.freed(&free(0x1000, 1 << 40)), Taken::NotYet);
}
