//! The ledger as a whole, batch by batch: order, lateness, ends of processes.

use super::*;
use crate::testing::{PID, call, calls, exit, handle, nccl, op, ops};
use gpuwhy_model::{Completion, Holder, InFlight, LaunchCount, ProcessEvent, ProcessEventKind};

const MS: u64 = 1_000_000;

fn ledger() -> Ledger {
    Ledger::new(&ops())
}

fn alloc(address: u64, bytes: u64, end_ns: u64) -> Call {
    Call { bytes, ..handle("cudaMalloc", end_ns, address) }
}

fn free(address: u64, end_ns: u64) -> Call {
    handle("cudaFree", end_ns, address)
}

fn of(pid: u32, call: Call) -> Call {
    Call { pid, tid: pid, ..call }
}

fn count(handle: u64, graph: bool, count: u64, time_ns: u64) -> LaunchCount {
    LaunchCount { time_ns, pid: PID, handle, graph, count, sum_ns: count }
}

fn freed(facts: &Facts) -> Vec<(u64, Option<u64>)> {
    facts.allocations.iter().map(|row| (row.address, row.freed_ns)).collect()
}

#[test]
fn nothing_comes_of_nothing() {
    assert_eq!(ledger().take(&Batch::default()), Facts::default());
    assert_eq!(Ledger::new(&[]).take(&calls([alloc(1, 1, 10)])), Facts::default());
}

#[test]
fn a_batch_is_taken_in_the_order_of_time() {
    let mut ledger = ledger();
    let facts = ledger.take(&calls([
        alloc(0x10, 30, 300),
        free(0x10, 200),
        alloc(0x20, 5, 250),
        alloc(0x10, 10, 100),
    ]));
    assert_eq!(freed(&facts), [(0x10, Some(200)), (0x10, None), (0x20, None)]);
    let memory = &facts.memory[0];
    assert_eq!((memory.live_bytes, memory.peak_bytes, memory.time_ns), (35, 35, 300));
    assert_eq!(ledger.unknown_frees(), 0);
}

#[test]
fn a_free_may_come_a_batch_before_its_allocation() {
    let mut ledger = ledger();
    let facts = ledger.take(&calls([free(0x10, 20 * MS), free(0x77, 20 * MS)]));
    assert_eq!((facts, ledger.unknown_frees()), (Facts::default(), 2));
    let facts = ledger.take(&calls([alloc(0x10, 10, 15 * MS), alloc(0x10, 10, 25 * MS)]));
    assert_eq!(freed(&facts), [(0x10, Some(20 * MS)), (0x10, None)]);
    assert_eq!(ledger.unknown_frees(), 1);
    ledger.take(&calls([alloc(0x20, 10, 20 * MS + LATE_NS + 1)]));
    assert_eq!((ledger.unknown_frees(), ledger.held.len()), (1, 0));
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut ledger = ledger();
    let frees: Vec<Call> = (0..MAX_HELD as u64 + 9).map(|i| free(0x10 + i, 10 + i)).collect();
    ledger.take(&calls(frees));
    assert_eq!((ledger.held.len(), ledger.unknown_frees()), (MAX_HELD, MAX_HELD as u64 + 9));
}

#[test]
fn a_failed_allocation_tells_who_holds_the_memory() {
    let mut ledger = ledger();
    let at = |stack, call| Call { stack_id: Some(stack), ..call };
    let mut made: Vec<Call> = (0..12).map(|i| at(i, alloc(0x100 + i as u64, 1 + i as u64, 10))).collect();
    made.push(at(3, alloc(0x200, 50, 10)));
    made.push(of(8, at(5, alloc(0x100, 40, 10))));
    made.push(at(1, Call { bytes: 999, ..handle("cudaHostAlloc", 10, 0x300) }));
    made.push(of(8, alloc(0x500, 500, 9)));
    made.push(of(8, free(0x500, 15)));
    // After the failure.
    made.push(alloc(0x400, 5_000, 30));
    let failed = Call { ret: 2, device: Some(1), ..at(9, alloc(0xdead, 1 << 40, 20)) };
    made.push(failed);
    let facts = ledger.take(&calls(made));
    let [failure] = facts.memory_failures.as_slice() else { panic!("{:?}", facts.memory_failures) };
    assert_eq!((failure.bytes, failure.ret, failure.gpu, failure.stack_id), (1 << 40, 2, Some(1), Some(9)));
    assert_eq!((failure.time_ns, failure.live_bytes), (20, 78 + 50 + 40));
    assert_eq!(failure.holders.len(), 10);
    let holder = |pid, stack, bytes, count| Holder { pid, stack_id: Some(stack), bytes, count };
    assert_eq!(failure.holders[..3], [holder(PID, 3, 54, 2), holder(8, 5, 40, 1), holder(PID, 11, 12, 1)]);
    let uses: Vec<_> =
        facts.memory.iter().filter(|sum| sum.failures > 0).map(|sum| (sum.pid, sum.gpu)).collect();
    assert_eq!(uses, [(PID, Some(1))]);
    assert!(facts.allocations.iter().all(|row| row.address != 0xdead));
}

#[test]
fn a_failed_free_frees_nothing() {
    let mut ledger = ledger();
    ledger.take(&calls([alloc(0x10, 10, 10), Call { ret: 1, ..free(0x10, 20) }]));
    assert_eq!(ledger.unknown_frees(), 0);
    assert_eq!(freed(&ledger.take(&calls([free(0x10, 30)]))), [(0x10, Some(30))]);
}

#[test]
fn a_process_that_ends_is_closed_and_forgotten() {
    let mut ledger = ledger();
    ledger
        .take(&calls([alloc(0x10, 10, 100), Call { aux: 0xa, ..handle("cudaGraphInstantiate", 110, 0xe) }]));
    let mut batch = calls([free(0x10, 190), alloc(0x20, 20, 180), alloc(0x30, 30, 150)]);
    batch.process_events = vec![exit(200)];
    batch.launch_counts = vec![count(0xe, true, 4, 500), count(0x50, false, 2, 500)];
    let facts = ledger.take(&batch);
    assert_eq!(freed(&facts), [(0x10, Some(190)), (0x20, Some(200)), (0x30, Some(200))]);
    let memory = &facts.memory[0];
    assert_eq!((memory.live_bytes, memory.peak_bytes, memory.time_ns), (0, 60, 200));
    let graph = &facts.graphs[0];
    assert_eq!((graph.launches, graph.destroyed_ns), (4, Some(200)));
    assert_eq!(facts.kernels[0].launches, 2);
    // A record that comes two batches later is still of use.
    ledger.take(&Batch::default());
    let facts = ledger.take(&calls([alloc(0x40, 40, 160)]));
    assert_eq!(freed(&facts), [(0x40, Some(200))]);
    assert_eq!((facts.memory[0].live_bytes, facts.memory[0].allocated_bytes), (0, 100));
    // Seconds later it is not, and a new process with the number starts from nothing.
    let elsewhere = |at_ns| Call { pid: PID + 1, tid: PID + 1, ..alloc(0x99, 1, at_ns) };
    ledger.take(&calls([elsewhere(4_000_000_000)]));
    ledger.take(&Batch::default());
    assert_eq!(ledger.take(&calls([alloc(0x50, 50, 170)])), Facts::default());
    let facts = ledger.take(&calls([alloc(0x10, 1, 900)]));
    assert_eq!((facts.memory[0].live_bytes, facts.memory[0].allocated_bytes), (1, 1));
}

#[test]
fn of_a_short_process_all_may_come_after_its_end() {
    let mut ledger = ledger();
    ledger.take(&Batch { process_events: vec![exit(200)], ..Batch::default() });
    let facts = ledger.take(&calls([alloc(0x10, 10, 100), alloc(0x20, 20, 110), free(0x20, 120)]));
    assert_eq!(freed(&facts), [(0x10, Some(200)), (0x20, Some(120))]);
    assert_eq!((facts.memory[0].live_bytes, facts.memory[0].peak_bytes), (0, 30));
}

#[test]
fn a_process_that_executes_another_program_starts_anew() {
    let mut ledger = ledger();
    let exec = ProcessEvent { kind: ProcessEventKind::Exec, ..exit(200) };
    let mut batch = calls([
        alloc(0x10, 5, 300),
        alloc(0x10, 10, 100),
        // Its clock was a little ahead.
        Call { start_ns: 195, duration_ns: 10, ..alloc(0x20, 20, 205) },
    ]);
    batch.process_events = vec![exec];
    let facts = ledger.take(&batch);
    assert_eq!(freed(&facts), [(0x10, Some(200)), (0x20, Some(205)), (0x10, None)]);
    let live: Vec<_> = facts.memory.iter().map(|memory| memory.live_bytes).collect();
    assert_eq!(live, [0, 5]);
    // Late records go to the program they are of.
    let facts = ledger.take(&calls([free(0x10, 150)]));
    assert_eq!((freed(&facts), facts.memory.len()), (vec![(0x10, Some(150))], 0));
    assert_eq!(ledger.unknown_frees(), 0);
    assert_eq!(freed(&ledger.take(&calls([free(0x10, 400)]))), [(0x10, Some(400))]);
}

#[test]
fn kernels_are_named_by_calls_or_by_others() {
    let mut ledger = ledger();
    let named = Call { name: Some("_Z1fv".into()), ..handle("cuModuleGetFunction", 10, 0x50) };
    let registered =
        Call { name: Some("_Z1gv".into()), ret: 77, ..handle("__cudaRegisterFunction", 10, 0x60) };
    let mut batch = calls([
        named,
        registered,
        Call { capture: 1, ..handle("cuLaunchKernel", 20, 0x71) },
        Call { aux: 0xa, ..handle("cudaGraphAddKernelNode", 21, 0x72) },
    ]);
    batch.launch_counts = vec![count(0x50, false, 1, 30), count(0x70, false, 1, 30)];
    let facts = ledger.take(&batch);
    let rows: Vec<_> =
        facts.kernels.iter().map(|row| (row.handle, row.name.as_str(), row.launches)).collect();
    assert_eq!(rows, [(0x50, "f()", 1), (0x60, "g()", 0), (0x70, "", 1), (0x71, "", 0), (0x72, "", 0)]);
    let mut unnamed = ledger.unnamed();
    unnamed.sort_unstable();
    assert_eq!(unnamed, [(PID, 0x70), (PID, 0x71), (PID, 0x72)]);
    assert!(ledger.unnamed().is_empty());
    ledger.name(PID, 0x70, "_Z1hv");
    ledger.name(PID, 0x71, "");
    let mut known: Vec<_> = ledger.known_names(PID).collect();
    known.sort_unstable();
    assert_eq!(known, [(0x50, "_Z1fv"), (0x60, "_Z1gv"), (0x70, "_Z1hv")]);
    assert_eq!(ledger.known_names(99).count(), 0);
    let facts = ledger.take(&Batch::default());
    assert_eq!((facts.kernels[0].name.as_str(), facts.kernels[0].launches), ("h()", 1));
}

#[test]
fn first_calls_are_told_once() {
    let mut ledger = ledger();
    let slow =
        Call { name: Some("_Z1fv".into()), duration_ns: 60_000, ..handle("cuModuleGetFunction", 100, 0x50) };
    let launch = Call { first: true, ..handle("cuLaunchKernel", 200_000, 0x50) };
    let facts = ledger.take(&calls([launch, slow, call("cuCtxCreate", 50)]));
    let seen: Vec<_> = facts.cold_starts.iter().map(|row| (row.event.as_str(), row.name.as_str())).collect();
    assert_eq!(seen, [("context", ""), ("lazy_load", "f()"), ("first_launch", "f()")]);
    assert!(facts.graphs.is_empty());
    // A free that is held back is no first call when it is taken again.
    let held = ledger.take(&calls([free(0x1, 300_000)]));
    assert_eq!((held, ledger.take(&Batch::default())), (Facts::default(), Facts::default()));
}

#[test]
fn collectives_are_told_completed_and_captured() {
    let mut ledger = ledger();
    let captured = |name, capture| {
        let mut nccl = nccl(name, 120);
        nccl.call.capture = capture;
        nccl
    };
    let mut batch = calls([
        Call { capture: 5, ..handle("cuLaunchKernel", 119, 0x50) },
        Call { capture: 5, ..call("cudaStreamBeginCapture", 100) },
        Call { capture: 5, ..handle("cudaStreamEndCapture", 200, 0xa) },
    ]);
    let mut split = nccl("ncclCommSplit", 90);
    (split.communicator, split.rank, split.nranks, split.call.handle) = (2, None, None, 0xc2);
    let failed = NcclCall {
        mark: 2,
        call: Call { ret: 5, ..nccl("ncclAllReduce", 60).call },
        ..nccl("ncclBcast", 60)
    };
    batch.nccl_calls = vec![
        captured("ncclAllReduce", 5),
        captured("ncclGroupStart", 5),
        nccl("ncclBcast", 50),
        nccl("ncclGroupStart", 40),
        failed,
        split,
    ];
    let op = op("cudaStreamSynchronize");
    let done = Completion { time_ns: 300, pid: PID, tid: 9, stream_slot: 3, done: 7, op, wait_ns: 99 };
    batch.completions = vec![done];
    let facts = ledger.take(&batch);
    let events: Vec<_> =
        facts.collectives.iter().map(|row| (row.event.as_str(), row.call.start_ns)).collect();
    let expected = [
        ("GROUP_START", 39),
        ("BROADCAST", 49),
        ("ALL_REDUCE", 59),
        ("COMM_SPLIT", 89),
        ("ALL_REDUCE", 119),
        ("GROUP_START", 119),
    ];
    assert_eq!(events, expected);
    let waits: Vec<_> = facts.collective_waits.iter().map(|wait| (wait.tid, wait.start_ns)).collect();
    assert_eq!(waits, [(PID, 49)]);
    let kinds: Vec<_> = facts.graph_nodes.iter().map(|node| node.kind.as_str()).collect();
    assert_eq!(kinds, ["kernel", "collective"]);
}

#[test]
fn calls_in_flight_end_with_their_process() {
    let mut ledger = ledger();
    let stuck = InFlight {
        seen_ns: 5_000 * MS,
        start_ns: 1_000 * MS,
        op: op("ncclAllReduce"),
        pid: PID,
        tid: 8,
        ..InFlight::default()
    };
    let look = |seen_ms: u64| InFlight { seen_ns: seen_ms * MS, ..stuck.clone() };
    let facts = ledger.take(&Batch { in_flight: Some(vec![look(5_000)]), ..Batch::default() });
    assert_eq!((facts.in_flight.len(), facts.in_flight[0].ended_ns), (1, None));
    assert!(ledger.take(&Batch::default()).in_flight.is_empty());
    let facts = ledger.take(&Batch {
        in_flight: Some(vec![look(6_000)]),
        process_events: vec![exit(5_500 * MS)],
        ..Batch::default()
    });
    assert_eq!((facts.in_flight.len(), facts.in_flight[0].ended_ns), (1, Some(5_500 * MS)));
    assert!(ledger.take(&Batch { in_flight: Some(Vec::new()), ..Batch::default() }).in_flight.is_empty());
}

#[test]
fn the_same_batches_give_the_same_facts() {
    let batches = [
        calls([alloc(0x10, 1, 10), of(8, alloc(0x10, 2, 11)), of(9, alloc(0x10, 3, 12))]),
        Batch { launch_counts: (1..50).map(|i| count(i, i % 2 == 0, 1, 20)).collect(), ..Batch::default() },
    ];
    let run = || {
        let mut ledger = ledger();
        batches.iter().map(|batch| ledger.take(batch)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
