//! Files of several nodes in one: nothing is lost, nothing is mixed up, clocks agree as far as anything tells.

use crate::made::{START, lines, ops, plain, session};
use gpuwhy_model::{Batch, Call, Facts, Frame, FrameKind, OpId, OpInfo, Process, Stack};
use gpuwhy_store::merge::{ClockSource, Clocks, MergeError, MergedFile, merge};
use gpuwhy_store::schema::TABLES;
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use rusqlite::{Connection, params_from_iter};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Nodes {
    folder: TempDir,
}

impl Nodes {
    fn new() -> Nodes {
        Nodes { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A trace of a node, then changed by these statements.
    fn node(&self, host: &str, ops: &[OpInfo], batch: &Batch, sql: &str) -> PathBuf {
        let path = self.path(&format!("{host}.db"));
        let session = SessionInfo { host: host.into(), ..session() };
        let mut writer = Writer::create_or_append(&path, &session, ops, &Options::default()).unwrap();
        writer.write(batch, &Facts::default()).unwrap();
        writer.finish(START + 1_000_000_000).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    }

    fn merge(&self, files: &[&Path], out: &str) -> Result<Vec<MergedFile>, MergeError> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.to_path_buf()).collect();
        merge(&files, &self.path(out), Clocks::Collectives, &|_| true)
    }

    fn reader(&self, out: &str) -> Reader {
        Reader::open(&self.path(out)).unwrap()
    }
}

/// Three rows in every table, values told by column and row.
pub(crate) fn fill(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(
        "DELETE FROM ops; DELETE FROM sessions; DELETE FROM hist_buckets; DELETE FROM schema_doc;",
    )
    .unwrap();
    for table in TABLES {
        for row in 0..3i64 {
            let values = table.columns.iter().map(|column| -> rusqlite::types::Value {
                match (column.name, column.kind) {
                    ("session_id" | "op_id" | "library_id" | "stack_id", _) => (row + 1).into(),
                    ("host", _) => path.file_stem().unwrap().to_string_lossy().into_owned().into(),
                    ("start_ns" | "end_ns", _) if table.name == "sessions" => (START as i64 + row).into(),
                    ("pid" | "tid", _) => (10 + row).into(),
                    ("bucket", _) => (100_000 + row).into(),
                    (_, "INTEGER") => (1000 + row).into(),
                    (_, "REAL") => (row as f64 + 0.5).into(),
                    (name, _) => format!("{name}{row}").into(),
                }
            });
            let sql = table.insert_sql("INSERT", 1);
            db.execute(&sql, params_from_iter(values))
                .unwrap_or_else(|error| panic!("{}: {error}", table.name));
        }
    }
}

#[test]
fn every_row_of_every_table_is_kept() {
    let nodes = Nodes::new();
    let files = ["a", "b", "c"].map(|host| nodes.node(host, &ops(), &Batch::default(), ""));
    for file in &files {
        fill(file);
    }
    nodes.merge(&files.each_ref().map(PathBuf::as_path), "out.db").unwrap();
    let out = nodes.reader("out.db");
    for table in TABLES {
        let expected = match table.name {
            // The same names are the same thing.
            "ops" | "libraries" => 3,
            // A container's id is its own everywhere.
            "containers" => 3,
            // The new file's own.
            "hist_buckets" | "schema_doc" => continue,
            _ => 9,
        };
        let sql = format!("SELECT count(*) FROM {}", table.name);
        assert_eq!(lines(&out, &sql), [expected.to_string()], "{}", table.name);
    }
    // What referred to something still refers to the same.
    assert_eq!(
        lines(&out, "SELECT node, op, pid, tid FROM events WHERE layer = 'sched' ORDER BY node, pid"),
        [
            "a|event0|10|10",
            "a|event1|11|11",
            "a|event2|12|12",
            "b|event0|10000010|10000010",
            "b|event1|10000011|10000011",
            "b|event2|10000012|10000012",
            "c|event0|20000010|20000010",
            "c|event1|20000011|20000011",
            "c|event2|20000012|20000012",
        ]
    );
    let lost = "SELECT count(*) FROM calls c LEFT JOIN stacks s ON s.stack_id = c.stack_id AND s.pid = c.pid \
                LEFT JOIN frames f ON f.stack_id = c.stack_id AND f.depth >= 1000 \
                LEFT JOIN ops o ON o.op_id = c.op_id LEFT JOIN libraries l ON l.library_id = c.library_id \
                LEFT JOIN processes p ON p.pid = c.pid AND p.session_id = c.session_id \
                WHERE s.pid IS NULL OR f.depth IS NULL OR o.op IS NULL OR l.file IS NULL OR p.pid IS NULL";
    assert_eq!(lines(&out, lost), ["0"]);
    // Columns that mean nothing but themselves are as they were.
    assert_eq!(
        lines(&out, "SELECT count(*), sum(duration_ns), sum(bytes), min(timestamp_ns) FROM calls"),
        [format!("9|{}|{}|1000", 3 * 3003, 3 * 3003)]
    );
}

fn stack(id: i64, pid: u32, function: &str) -> Stack {
    let frame = Frame { kind: FrameKind::Native, function: Some(function.into()), ..Frame::default() };
    Stack { stack_id: id, pid, addresses: vec![1], frames: vec![frame], complete: true }
}

fn batch(pid: u32, stack_id: i64, function: &str) -> Batch {
    Batch {
        calls: vec![Call { pid, tid: pid + 1, stack_id: Some(stack_id), op: OpId(2), ..plain(1) }],
        stacks: vec![stack(stack_id, pid, function)],
        processes: vec![Process { pid, start_ns: START, comm: format!("p{pid}"), ..Process::default() }],
        ..Batch::default()
    }
}

#[test]
fn numbers_that_are_of_one_file_alone_do_not_collide() {
    let nodes = Nodes::new();
    let reversed: Vec<OpInfo> = ops().into_iter().rev().collect();
    let a = nodes.node("a", &ops(), &batch(10, 7, "one"), "");
    // The same process number, the same stack number with something else in it, operations in another order.
    let b = nodes.node("b", &reversed, &batch(10, 7, "other"), "");
    let c = nodes.node("c", &ops(), &batch(77, 9, "third"), "");
    let merged = nodes.merge(&[&a, &b, &c], "out.db").unwrap();
    let shifts: Vec<(i64, usize)> = merged.iter().map(|file| (file.pid_shift, file.pids_shifted)).collect();
    assert_eq!(shifts, [(0, 0), (10_000_000, 1), (0, 0)]);
    let out = nodes.reader("out.db");
    assert_eq!(
        lines(
            &out,
            "SELECT e.node, e.op, e.pid, e.tid, p.comm, f.function FROM events e \
             JOIN processes p ON p.pid = e.pid JOIN frames f ON f.stack_id = e.stack_id ORDER BY e.node"
        ),
        [
            "a|cudaMalloc|10|11|p10|one",
            "b|cudaMalloc|10000010|10000011|p10|other",
            "c|cudaMalloc|77|78|p77|third"
        ]
    );
    assert_eq!(
        lines(
            &out,
            "SELECT file, clock_shift_ns, clock_error_ns, clock_source, pid_shift, pids_shifted FROM merged"
        ),
        ["a.db|0|0|reference|0|0", "b.db|0|-|none|10000000|1", "c.db|0|-|none|0|0"]
    );
}

/// Collectives as a node saw them: begun and done in its own time.
fn collectives(pid: u32, rank: u32, shift: i64, waits: bool) -> String {
    (0..200i64)
        .map(|seq| {
            // Ranks come in turns, up to 300 us apart; all are done 50 us after the last; told up to 9 us later.
            let begun = START as i64 + seq * 1_000_000 + (seq + i64::from(rank) * 37) % 7 * 50_000;
            let last = (0..2).map(|rank| (seq + rank * 37) % 7 * 50_000).max().unwrap();
            let done = START as i64 + seq * 1_000_000 + last + 50_000 + (seq * 13 + i64::from(rank) * 5) % 10 * 1_000;
            let wait = if waits { "5000" } else { "0" };
            format!(
                "INSERT INTO nccl_events (timestamp_ns, duration_ns, op, pid, tid, rank, nranks, comm_id_hash, seq, completed_ns, \
                 wait_ns, session_id) VALUES ({}, 9000, 'ALL_REDUCE', {pid}, {pid}, {rank}, 2, '0xabc', {seq}, {}, {wait}, 1);",
                begun + shift,
                done + shift
            )
        })
        .collect()
}

#[test]
fn clocks_are_aligned_by_collectives_within_the_error_that_is_stated() {
    for (shift, waits) in [(0, true), (123_456_789, true), (-5_000_000_000, true), (987_654, false)] {
        let nodes = Nodes::new();
        let a = nodes.node("a", &ops(), &Batch::default(), &collectives(10, 0, 0, waits));
        let b = nodes.node("b", &ops(), &Batch::default(), &collectives(20, 1, shift, waits));
        let merged = nodes.merge(&[&a, &b], "out.db").unwrap();
        let clock = merged[1].clock;
        assert_eq!((clock.source, clock.collectives), (ClockSource::Collectives, 200));
        let (wrong, error) = ((clock.shift_ns + shift).abs(), clock.error_ns.unwrap());
        assert!(wrong <= error, "{shift}: wrong by {wrong}, stated {error}");
        // Where both waited they were told at about the same time.
        assert!(wrong <= if waits { 10_000 } else { 100_000 }, "{shift}: wrong by {wrong}");
        assert!(error <= 120_000, "{error}");
        let apart = "SELECT max(late) < 130000 FROM (SELECT max(completed_ns) - min(completed_ns) AS late FROM nccl_events \
                     GROUP BY comm_id_hash, seq HAVING count(*) = 2)";
        assert_eq!(lines(&nodes.reader("out.db"), apart), ["1"]);
        assert_eq!(
            lines(&nodes.reader("out.db"), "SELECT clock_source FROM merged ORDER BY session_id"),
            ["reference", "collectives"]
        );
    }
}

#[test]
fn a_node_is_aligned_through_another_and_one_that_shares_nothing_is_left() {
    let nodes = Nodes::new();
    let other = |sql: String| sql.replace("0xabc", "0xdef");
    let a = nodes.node("a", &ops(), &Batch::default(), &collectives(10, 0, 0, true));
    let both = collectives(20, 1, 7_000_000, true) + &other(collectives(20, 0, 7_000_000, true));
    let b = nodes.node("b", &ops(), &Batch::default(), &both);
    let c = nodes.node("c", &ops(), &Batch::default(), &other(collectives(30, 1, 9_000_000, true)));
    let d = nodes.node("d", &ops(), &Batch::default(), "");
    let merged = nodes.merge(&[&a, &d, &c, &b], "out.db").unwrap();
    let near =
        |at: usize, ns: i64| (merged[at].clock.shift_ns - ns).abs() <= merged[at].clock.error_ns.unwrap();
    assert!(near(2, -9_000_000) && near(3, -7_000_000), "{merged:?}");
    assert_eq!((merged[1].clock.source, merged[1].clock.error_ns), (ClockSource::None, None));
    // Merged again the shifts add up, and what was unknown stays so.
    let e = nodes.node("e", &ops(), &Batch::default(), &other(collectives(40, 0, -1_000_000, true)));
    nodes.merge(&[&e, &nodes.path("out.db")], "again.db").unwrap();
    let again = nodes.reader("again.db");
    assert_eq!(
        lines(
            &again,
            "SELECT s.host, m.file, m.clock_source, abs(m.clock_shift_ns - CASE s.host WHEN 'e' THEN 0 WHEN 'a' THEN -1000000 \
             WHEN 'b' THEN -8000000 WHEN 'c' THEN -10000000 END) < 400000 FROM merged m JOIN sessions s USING (session_id) \
             WHERE s.host <> 'd' ORDER BY s.host"
        ),
        ["a|a.db|collectives|1", "b|b.db|collectives|1", "c|c.db|collectives|1", "e|e.db|reference|1"]
    );
    assert_eq!(
        lines(&again, "SELECT clock_source, clock_error_ns FROM merged WHERE file = 'd.db'"),
        ["none|-"]
    );
}

#[test]
fn the_same_trace_twice_is_refused_even_within_a_merged_one() {
    let nodes = Nodes::new();
    let a = nodes.node("a", &ops(), &batch(10, 7, "one"), &collectives(10, 0, 0, true));
    let b = nodes.node("b", &ops(), &Batch::default(), &collectives(20, 1, 5_000_000, true));
    assert!(matches!(nodes.merge(&[&a, &a], "x.db"), Err(MergeError::Twice { .. })));
    let copy = nodes.path("copy.db");
    std::fs::copy(&a, &copy).unwrap();
    assert!(matches!(nodes.merge(&[&a, &copy], "x.db"), Err(MergeError::Same { .. })));
    assert!(matches!(nodes.merge(&[&a], "x.db"), Err(MergeError::One)));
    nodes.merge(&[&a, &b], "out.db").unwrap();
    let refused = nodes.merge(&[&nodes.path("out.db"), &b], "x.db").unwrap_err();
    assert!(
        refused.to_string().contains("they are the same trace, or one was merged from the other"),
        "{refused}"
    );
}

#[test]
fn texts_that_name_processes_and_stacks_name_the_right_ones() {
    let nodes = Nodes::new();
    let a = nodes.node("a", &ops(), &batch(10, 7, "one"), "");
    let sql = "INSERT INTO memory_failures (timestamp_ns, event, pid, holders, session_id) \
                   VALUES (1, 'alloc_failed', 10, '[{\"pid\":10,\"stack_id\":7,\"bytes\":5,\"count\":1}]', 1);
               INSERT INTO findings (id, severity, title, pid, start_ns, end_ns, causes, sql, session_id) VALUES ('x', 'low', 't', 10, \
                   1, 2, '[{\"by\":[{\"pid\":10,\"comm\":\"p\"},{\"pid\":null}]}]', 'SELECT 1 WHERE pid = 10 AND tid = 10', 1);
               INSERT INTO watch_changes (timestamp_ns, probe, target, state) VALUES (1, 'governor', 'process 10', 'degraded');";
    let b = nodes.node("b", &ops(), &batch(10, 7, "other"), sql);
    nodes.merge(&[&a, &b], "out.db").unwrap();
    let out = nodes.reader("out.db");
    assert_eq!(
        lines(
            &out,
            "SELECT holders ->> '$[0].pid', f.function FROM memory_failures m JOIN frames f ON f.stack_id = m.holders ->> '$[0].stack_id'"
        ),
        ["10000010|other"]
    );
    assert_eq!(
        lines(&out, "SELECT pid, causes ->> '$[0].by[0].pid', sql FROM findings"),
        ["10000010|10000010|SELECT 1 WHERE pid = 10000010 AND tid = 10"]
    );
    assert_eq!(lines(&out, "SELECT target FROM watch_changes"), ["process 10000010"]);
}

#[test]
fn somebody_who_wants_to_stop_is_heard() {
    let nodes = Nodes::new();
    let many = Batch { calls: (0..10_000).map(plain).collect(), ..Batch::default() };
    let a = nodes.node("a", &ops(), &many, "");
    let b = nodes.node("b", &ops(), &many, "");
    let stopped = merge(&[a, b], &nodes.path("out.db"), Clocks::Collectives, &|rows| rows < 5_000);
    assert!(matches!(stopped, Err(MergeError::Interrupted)));
}

/// Numbers that nobody has written, as of a file that is damaged or meant to do harm.
#[test]
fn absurd_numbers_stop_nothing() {
    for absurd in [i64::MAX, i64::MIN, u32::MAX.into(), -1, 0] {
        let nodes = Nodes::new();
        let files = ["a", "b"].map(|host| nodes.node(host, &ops(), &Batch::default(), ""));
        files.iter().for_each(|file| fill(file));
        let db = Connection::open(&files[1]).unwrap();
        for table in TABLES {
            let keep =
                |name: &str| table.key.contains(&name) || name == "start_ns" && table.name == "sessions";
            let numbers =
                table.columns.iter().filter(|column| column.kind == "INTEGER" && !keep(column.name));
            let sets: Vec<String> = numbers.map(|column| format!("{} = {absurd}", column.name)).collect();
            if !sets.is_empty() {
                db.execute_batch(&format!("UPDATE {} SET {}", table.name, sets.join(", "))).unwrap();
            }
        }
        drop(db);
        // Whichever way round.
        for (at, order) in [[0, 1], [1, 0]].iter().enumerate() {
            let files = order.map(|at: usize| files[at].as_path());
            match nodes.merge(&files, &format!("out-{at}.db")) {
                Ok(merged) => assert_eq!(merged.len(), 2),
                Err(error) => assert!(!error.to_string().is_empty(), "{absurd}"),
            }
        }
    }
}
