//! The file keeps within its size, the newest data stays, and what went is recorded.

use crate::made::{START, calls, lines, ops, session, window};
use gpuwhy_model::{
    Allocation, Batch, BlameRow, CallInFlight, Cause, Facts, Graph, GraphNode, MemoryKind, MemoryUse, OpId,
    Process, Stack,
};
use gpuwhy_store::{Filter, Limits, Options, Reader, Value, Writer};
use std::path::Path;

const LIMIT: u64 = 8 << 20;

fn size(path: &Path) -> u64 {
    ["trace.db", "trace.db-wal"]
        .iter()
        .filter_map(|name| std::fs::metadata(path.with_file_name(name)).ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn number(reader: &Reader, sql: &str) -> i64 {
    match reader.sql(sql, &Limits::default()).unwrap().rows[0][0] {
        Value::Integer(number) => number,
        ref other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn the_oldest_rows_go_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let options = Options { max_size: LIMIT, ..Options::default() };
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &options).unwrap();
    let process = Process { pid: 10, start_ns: START, end_ns: Some(START + 1), ..Process::default() };
    let stack = Stack { stack_id: 1, pid: 10, addresses: vec![1, 2], ..Stack::default() };
    writer
        .write(
            &Batch { processes: vec![process], stacks: vec![stack], ..Batch::default() },
            &Facts::default(),
        )
        .unwrap();
    const ROUNDS: u64 = 150;
    const CALLS: u64 = 2000;
    let mut largest = 0;
    for round in 0..ROUNDS {
        let batch = Batch {
            windows: vec![window(round, 11, 1, &[500, 600])],
            ..calls(round * CALLS..(round + 1) * CALLS)
        };
        let blame = BlameRow {
            window_start_ns: START + round * CALLS * 1000,
            pid: 10,
            tid: 11,
            op: OpId(1),
            cause: Cause::CpuSelf,
            by_pid: 0,
            by_tid: 0,
            by_comm: String::new(),
            by_cgroup_id: 0,
            ns: 5,
            count: 1,
        };
        writer.write(&batch, &Facts { blame: vec![blame], ..Facts::default() }).unwrap();
        writer.commit().unwrap();
        largest = largest.max(size(&path));
    }
    writer.finish(START + ROUNDS * CALLS * 1000).unwrap();
    assert!(largest <= LIMIT + LIMIT / 50, "grew to {largest} of {LIMIT}");
    assert!(largest >= LIMIT * 8 / 10, "used only {largest} of {LIMIT}");

    let reader = Reader::open(&path).unwrap();
    let rest = reader.calls(&Filter::default()).unwrap();
    assert!(rest.len() > 30_000, "{} calls left", rest.len());
    assert_eq!(rest.last().unwrap().start_ns, START + (ROUNDS * CALLS - 1) * 1000);
    let deleted_before = reader.deleted_before_ns().unwrap().unwrap();
    assert_eq!(rest.first().unwrap().start_ns, deleted_before);
    // One row a window and one a round beside the calls; the process, its stack and the sessions.
    let left: i64 = ["calls", "call_stats", "blame", "processes", "stacks"]
        .map(|t| number(&reader, &format!("SELECT count(*) FROM {t}")))
        .iter()
        .sum();
    let deleted = number(&reader, "SELECT sum(rows) FROM retention");
    assert_eq!(left + deleted, (ROUNDS * CALLS + 2 * ROUNDS + 2) as i64);
    assert_eq!(number(&reader, "SELECT count(*) FROM stacks"), 0, "stacks of processes long gone");
    // A row for each time a tenth of the file went, not for each commit.
    assert!(number(&reader, "SELECT count(*) FROM retention") < ROUNDS as i64 / 2);
}

#[test]
fn windows_alone_are_deleted_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let options = Options { max_size: 0, ..Options::default() };
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &options).unwrap();
    for round in 0..400 {
        let windows = (0..50).map(|i| window(round * 50 + i, 11, 1, &[500, 6000, 70_000, 800_000])).collect();
        writer.write(&Batch { windows, ..Batch::default() }, &Facts::default()).unwrap();
        writer.commit().unwrap();
    }
    writer.finish(1).unwrap();
    let smallest = 4 << 20;
    assert!(size(&path) <= smallest + smallest / 50, "{}", size(&path));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        number(&reader, "SELECT max(window_start_ns) FROM call_stats"),
        (START + 19_999 * 1_000_000_000) as i64
    );
    assert!(number(&reader, "SELECT count(*) FROM call_stats") > 5000);
}

#[test]
fn one_huge_batch_does_not_pass_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let options = Options { max_size: LIMIT, ..Options::default() };
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &options).unwrap();
    writer.write(&calls(0..300_000), &Facts::default()).unwrap();
    writer.commit().unwrap();
    assert!(size(&path) <= LIMIT + LIMIT / 50, "{}", size(&path));
    writer.finish(1).unwrap();
}

/// What is dated goes by its date, what belongs to a graph or a process goes with that, and what lives stays.
#[test]
fn what_lives_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let options = Options { max_size: LIMIT, ..Options::default() };
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &options).unwrap();
    let graph =
        |graph, pid, destroyed_ns| Graph { pid, graph, created_ns: START, destroyed_ns, ..Graph::default() };
    let node = |graph, pid, node| GraphNode {
        pid,
        graph,
        created_ns: START,
        node,
        kind: "kernel".into(),
        ..GraphNode::default()
    };
    let piece = |address, pid, freed_ns| Allocation {
        pid,
        address,
        bytes: 1,
        allocated_ns: START,
        freed_ns,
        tid: 11,
        op: OpId(2),
        kind: MemoryKind::Device,
        gpu: None,
        pool: None,
        stack_id: None,
    };
    let usage = MemoryUse {
        time_ns: START,
        pid: 10,
        gpu: None,
        kind: MemoryKind::Device,
        live_bytes: 1,
        peak_bytes: 1,
        live_count: 1,
        allocated_bytes: 1,
        freed_bytes: 0,
        failures: 0,
    };
    let waiting = |tid, seen_ns| CallInFlight {
        start_ns: START,
        pid: 10,
        tid,
        op: OpId(4),
        stream: 0,
        handle: 0,
        comm_id_hash: None,
        rank: None,
        nranks: None,
        seq: None,
        seen_ns,
        ended_ns: None,
        stack_id: None,
        line: None,
    };
    let ended = Process { pid: 20, start_ns: START, end_ns: Some(START + 1), ..Process::default() };
    let runs = Process { pid: 10, start_ns: START, ..Process::default() };
    let facts = Facts {
        graphs: vec![graph(1, 10, None), graph(2, 10, Some(START + 1)), graph(3, 20, None)],
        graph_nodes: vec![node(1, 10, 0), node(1, 10, 1), node(2, 10, 0), node(3, 20, 0)],
        allocations: vec![piece(1, 10, None), piece(2, 10, Some(START + 1)), piece(3, 20, None)],
        memory: vec![usage],
        in_flight: vec![waiting(1, START + 1), waiting(2, START + 1_000_000_000)],
        ..Facts::default()
    };
    writer.write(&Batch { processes: vec![ended, runs], ..Batch::default() }, &facts).unwrap();
    for round in 0..60 {
        writer.write(&calls(round * 2000..(round + 1) * 2000), &Facts::default()).unwrap();
        writer.commit().unwrap();
    }
    writer.finish(1).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.deleted_before_ns().unwrap().unwrap() > START);
    assert_eq!(lines(&reader, "SELECT graph FROM graphs"), ["0x1"]);
    assert_eq!(lines(&reader, "SELECT graph, node FROM graph_nodes"), ["0x1|0", "0x1|1"]);
    assert_eq!(lines(&reader, "SELECT address FROM allocations"), ["0x1"]);
    assert_eq!(lines(&reader, "SELECT tid FROM calls_in_flight"), ["2"]);
    assert_eq!(number(&reader, "SELECT count(*) FROM memory_stats"), 0);
}
