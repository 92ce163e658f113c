//! Device memory: pieces, sums over time, failures.

use crate::made::{START, lines, trace, writer};
use gpuwhy_model::{Allocation, Batch, Facts, Holder, MemoryFailure, MemoryKind, MemoryUse, OpId};
use gpuwhy_store::Reader;

fn piece(address: u64, bytes: u64, allocated: u64, freed: Option<u64>) -> Allocation {
    Allocation {
        pid: 10,
        address,
        bytes,
        allocated_ns: START + allocated,
        freed_ns: freed.map(|ns| START + ns),
        tid: 11,
        op: OpId(2),
        kind: MemoryKind::Device,
        gpu: Some(0),
        pool: None,
        stack_id: Some(-7),
    }
}

#[test]
fn a_free_completes_its_allocation_and_can_be_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    for freed in [None, Some(90), None, Some(80)] {
        let pooled = Allocation { pool: Some("0xab".into()), gpu: None, ..piece(u64::MAX, 64, 5, freed) };
        let allocations = vec![pooled, piece(0x1000, 32, 6, None)];
        writer.write(&Batch::default(), &Facts { allocations, ..Facts::default() }).unwrap();
        writer.commit().unwrap();
    }
    // The address is used again: another piece.
    let allocations = vec![piece(u64::MAX, 128, 95, None)];
    writer.write(&Batch::default(), &Facts { allocations, ..Facts::default() }).unwrap();
    writer.finish(1).unwrap();
    assert_eq!(
        lines(
            &Reader::open(&path).unwrap(),
            "SELECT pid, address, bytes, allocated_ns, freed_ns, tid, op, kind, gpu, pool, stack_id FROM allocations \
             ORDER BY allocated_ns"
        ),
        [
            "10|0xffffffffffffffff|64|+5|+80|11|cudaMalloc|device|-|0xab|-7",
            "10|0x1000|32|+6|-|11|cudaMalloc|device|0|-|-7",
            "10|0xffffffffffffffff|128|+95|-|11|cudaMalloc|device|0|-|-7",
        ]
    );
}

#[test]
fn who_holds_live_memory_is_summed_by_call_site() {
    let graph = Some("graph:0x20".to_string());
    let allocations = vec![
        piece(1, 100, 5, None),
        piece(2, 50, 3, None),
        piece(3, 1000, 4, Some(9)),
        Allocation { stack_id: None, kind: MemoryKind::Managed, ..piece(4, 7, 6, None) },
        Allocation { pool: graph, ..piece(5, 8, 7, None) },
    ];
    let (_folder, reader) = trace(&Batch::default(), &Facts { allocations, ..Facts::default() });
    assert_eq!(
        lines(
            &reader,
            "SELECT pid, gpu, kind, pool, stack_id, bytes, count, oldest_ns, newest_ns FROM memory_holders ORDER BY bytes DESC"
        ),
        ["10|0|device|-|-7|150|2|+3|+5", "10|0|device|graph:0x20|-7|8|1|+7|+7", "10|0|managed|-|-|7|1|+6|+6"]
    );
}

#[test]
fn use_over_time_and_failures_are_kept() {
    let usage = MemoryUse {
        time_ns: START + 1,
        pid: 10,
        gpu: Some(1),
        kind: MemoryKind::Registered,
        live_bytes: 1,
        peak_bytes: 2,
        live_count: 3,
        allocated_bytes: 4,
        freed_bytes: 5,
        failures: 6,
    };
    let failure = MemoryFailure {
        time_ns: START + 2,
        pid: 10,
        tid: 11,
        op: OpId(2),
        bytes: 1 << 40,
        ret: 2,
        gpu: None,
        stack_id: Some(-7),
        live_bytes: 99,
        holders: vec![
            Holder { pid: 20, stack_id: Some(-9), bytes: 90, count: 2 },
            Holder { pid: 10, stack_id: None, bytes: 9, count: 1 },
        ],
    };
    let facts = Facts { memory: vec![usage], memory_failures: vec![failure], ..Facts::default() };
    let (_folder, reader) = trace(&Batch::default(), &facts);
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, pid, gpu, kind, live_bytes, peak_bytes, live_count, allocated_bytes, freed_bytes, failures \
             FROM memory_stats"
        ),
        ["+1|10|1|registered|1|2|3|4|5|6"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, event, op, pid, tid, bytes, ret, gpu, stack_id, live_bytes FROM memory_failures"
        ),
        ["+2|alloc_failed|cudaMalloc|10|11|1099511627776|2|-|-7|99"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT j.value ->> 'pid', j.value ->> 'stack_id', j.value ->> 'bytes', j.value ->> 'count' \
             FROM memory_failures f, json_each(f.holders) j"
        ),
        ["20|-9|90|2", "10|-|9|1"]
    );
    assert_eq!(
        lines(&reader, "SELECT layer, op, bytes, ret, stack_id FROM events"),
        ["memory|alloc_failed|1099511627776|2|-7"]
    );
}
