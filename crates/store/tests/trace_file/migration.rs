//! Files of version 1: read as they are, and brought up to date when a run appends to them.

use crate::made::{START, calls, lines, ops, plain, session, writer};
use gpuwhy_model::{Batch, Call, Facts, Kernel, OpId, Role};
use gpuwhy_store::{Filter, Limits, Options, Reader, Writer};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A trace as version 1 left it: two calls of one operation, their sums, a collective, a probe that was refused.
fn version_1() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(include_str!("v1.sql")).unwrap();
    db.execute_batch(&format!(
        "INSERT INTO sessions (session_id, start_ns, end_ns, host) VALUES (1, {START}, {START} + 9000, 'node-1');
         INSERT INTO ops VALUES (1, 'cudaMalloc', 'cuda', 'alloc', 0);
         INSERT INTO ops VALUES (2, 'cuLaunchKernel', 'cuda', 'other', 0);
         INSERT INTO calls (timestamp_ns, duration_ns, op_id, pid, tid, kept, handle, session_id)
             VALUES ({START}, 700, 2, 10, 11, 2, 80, 1), ({START} + 1000, 800, 2, 10, 11, 3, 81, 1);
         INSERT INTO call_stats (window_start_ns, window_ns, pid, op, count, sum_ns, min_ns, max_ns, hist, errors, kept,
             bytes, oncpu_ns, runq_ns, blocked_ns, futex_ns, block_io_ns, file_ns, socket_ns, poll_ns, ioctl_ns,
             fault_ns, sleep_ns, other_ns)
             VALUES ({START}, 1000, 10, 'cuLaunchKernel', 5, 900, 70, 300, '{{\"1\":5}}', 0, 2, 0, 900, 0, 0, 0, 0, 0, 0,
             0, 0, 0, 0, 0);
         INSERT INTO blame (window_start_ns, pid, tid, op, cause, ns, count)
             VALUES ({START}, 10, 11, 'cuLaunchKernel', 'cpu.self', 900, 1);
         INSERT INTO nccl_events (timestamp_ns, duration_ns, op, pid, tid) VALUES ({START} + 2000, 1, 'ALL_REDUCE', 10, 11);
         INSERT INTO kernels (pid, handle, name) VALUES (10, '0x50', 'gemm');
         INSERT INTO graphs (pid, graph, exec, created_ns, launches) VALUES (10, '0x20', '0x30', {START}, 4);
         INSERT INTO processes (pid, start_ns, comm, rank) VALUES (10, 5, 'python', 3);
         INSERT INTO probes (session_id, probe, target, file, state) VALUES (1, 'cuda', 'cuOdd', '/lib/x', 'refused');
         INSERT INTO loss (start_ns, end_ns, probe, count) VALUES ({START}, {START} + 1, 'cuda', 7);"
    ))
    .unwrap();
    drop(db);
    (folder, path)
}

/// Everything that a program could see of the schema, in the order in which it is.
fn shape(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut rows = Vec::new();
    for sql in [
        "SELECT m.type || ' ' || m.name || ' ' || i.cid || ' ' || i.name || ' ' || i.type || ' ' || i.\"notnull\" || ' ' || i.pk \
         FROM sqlite_master m, pragma_table_info(m.name) i ORDER BY 1",
        "SELECT type || ' ' || name || ' ' || tbl_name FROM sqlite_master WHERE type = 'index' ORDER BY 1",
        "SELECT name || sql FROM sqlite_master WHERE type = 'view' ORDER BY 1",
        "SELECT table_name || column_name || unit || about FROM schema_doc ORDER BY 1",
        "SELECT user_version || '' FROM pragma_user_version",
    ] {
        let mut statement = db.prepare(sql).unwrap();
        rows.extend(statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap));
    }
    rows
}

#[test]
fn a_migrated_file_has_the_schema_of_a_new_one_and_its_old_rows() {
    let (folder, path) = version_1();
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap();
    let call = Call { op: OpId(1), handle: 0x50, first: true, ..plain(5) };
    let kernel = Kernel { pid: 10, handle: 0x50, launches: 3, ..Kernel::default() };
    let facts = Facts { kernels: vec![kernel], ..Facts::default() };
    writer.write(&Batch { calls: vec![call], ..Batch::default() }, &facts).unwrap();
    writer.finish(START + 99_000).unwrap();
    let new = folder.path().join("new.db");
    crate::made::writer(&new).finish(1).unwrap();
    assert_eq!(shape(&path), shape(&new));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, op, duration_ns, kernel, first_launch, gpu, session_id FROM cuda_events"
        ),
        [
            "+0|cuLaunchKernel|700|gemm|0|-|1",
            "+1000|cuLaunchKernel|800|-|0|-|1",
            "+5000|cuLaunchKernel|700|gemm|1|-|2",
        ]
    );
    assert_eq!(lines(&reader, "SELECT op, count FROM op_summary"), ["cuLaunchKernel|5"]);
    assert_eq!(lines(&reader, "SELECT name, launches FROM kernels"), ["gemm|3"]);
    // What version 1 did not know of an operation is known from now on.
    let launch = reader.ops().unwrap().into_iter().find(|op| op.name == "cuLaunchKernel").unwrap();
    assert_eq!((launch.id, launch.role, launch.family.name()), (OpId(2), Role::Launch, "launch"));
    assert_eq!(
        lines(&reader, "SELECT about FROM schema_doc WHERE table_name = 'calls' AND column_name = 'pid'"),
        ["process"]
    );
}

#[test]
fn a_file_of_version_1_is_read_without_changing_it() {
    let (folder, path) = version_1();
    let before = std::fs::read(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.event_count().unwrap(), 3);
    let span = reader.span().unwrap().unwrap();
    assert_eq!((span.start_ns, span.end_ns), (START, START + 9000));
    assert_eq!(reader.newest_ns().unwrap(), Some(START + 2000));
    let coverage = reader.coverage(None).unwrap();
    assert_eq!((coverage.lost, coverage.sampled), (7, 3));
    assert_eq!(coverage.unattached, ["cuda cuOdd in /lib/x"]);
    let calls = reader.calls(&Filter::default()).unwrap();
    assert_eq!((calls.len(), calls[1].handle, calls[1].device, calls[1].library), (2, 81, None, 0));
    assert_eq!(reader.ops().unwrap()[1].role, Role::None);
    assert_eq!(reader.call_stats(&Filter::default()).unwrap()[0].count, 5);
    assert_eq!(reader.blame(&Filter::default()).unwrap().len(), 1);
    let found = |op: &str| {
        let filter = Filter { op: Some(op.into()), ..Filter::default() };
        reader.events(&filter, &Limits::default()).unwrap().rows.len()
    };
    assert_eq!((found("cuLaunchKernel"), found("ALL_REDUCE"), found("ncclAllReduce")), (2, 1, 0));
    // It answers what is asked of a new file, as far as it can.
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, layer, op, rank FROM events ORDER BY 1"),
        ["+0|cuda|cuLaunchKernel|3", "+1000|cuda|cuLaunchKernel|3", "+2000|nccl|ALL_REDUCE|-",]
    );
    assert_eq!(lines(&reader, "SELECT op, wait_ns, function FROM nccl_events"), ["ALL_REDUCE|-|-"]);
    assert_eq!(lines(&reader, "SELECT exec, launches, updates FROM graphs"), ["0x30|4|-"]);
    for empty in
        ["memory_stats", "copy_stats", "graph_launches", "driver_events", "memory_holders", "libraries"]
    {
        assert_eq!(lines(&reader, &format!("SELECT count(*) FROM {empty}")), ["0"]);
    }
    let plan =
        lines(&reader, "EXPLAIN QUERY PLAN SELECT op FROM cuda_events WHERE timestamp_ns > 5").join("\n");
    assert!(plan.contains("USING INDEX calls_timestamp_ns"), "{plan}");
    for sql in
        ["INSERT INTO memory_stats (pid) VALUES (1)", "DROP VIEW cuda_events", "DROP TABLE temp.memory_stats"]
    {
        reader.sql(sql, &Limits::default()).unwrap_err();
    }
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A migration that cannot be finished leaves the file as it was.
#[test]
fn a_migration_is_all_or_nothing() {
    let (_folder, path) = version_1();
    // A view of the user's own that has a name the new schema needs for a table.
    Connection::open(&path).unwrap().execute_batch("CREATE VIEW memory_stats AS SELECT 1 AS x").unwrap();
    let before = shape(&path);
    Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap_err();
    assert_eq!(shape(&path), before);
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 3);
}

#[test]
fn a_file_is_migrated_once() {
    let (_folder, path) = version_1();
    for round in 0..2 {
        let mut writer = writer(&path);
        writer.write(&calls(round * 10..round * 10 + 5), &Facts::default()).unwrap();
        writer.finish(1).unwrap();
    }
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 13);
}
