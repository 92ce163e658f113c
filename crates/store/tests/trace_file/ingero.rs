//! Files of another tool, of several ages: read as ours, left as they are, and never written to.

use crate::made::{START, lines, ops, session};
use gpuwhy_model::{Direction, Layer};
use gpuwhy_store::{Filter, Limits, Maker, Options, Reader, StoreError, Writer};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The oldest schema known, without cgroups, names of frames, nodes and sums of bytes.
const OLD: &str = include_str!("ingero.sql");

/// What came with cgroups and frames.
const LATER: &str = "
    UPDATE schema_info SET value = '0.8';
    DROP INDEX idx_events_source_op;
    CREATE INDEX idx_events_source_op_stack ON events(source, op, stack_hash);
    ALTER TABLE stack_traces ADD COLUMN frames TEXT NOT NULL DEFAULT '';
    ALTER TABLE events ADD COLUMN stack_ips TEXT NOT NULL DEFAULT '';
    ALTER TABLE events ADD COLUMN cgroup_id INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE cgroup_metadata (cgroup_id INTEGER PRIMARY KEY, container_id TEXT NOT NULL DEFAULT '',
        cgroup_path TEXT NOT NULL DEFAULT '', pod_name TEXT NOT NULL DEFAULT '', namespace TEXT NOT NULL DEFAULT '');";

/// What came with nodes, names in rows and annotations.
const NEWEST: &str = "
    UPDATE schema_info SET value = '0.10';
    ALTER TABLE events ADD COLUMN node TEXT NOT NULL DEFAULT '';
    ALTER TABLE events ADD COLUMN rank INTEGER;
    ALTER TABLE events ADD COLUMN local_rank INTEGER;
    ALTER TABLE events ADD COLUMN world_size INTEGER;
    ALTER TABLE events ADD COLUMN comm TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN node TEXT NOT NULL DEFAULT '';
    CREATE TABLE annotations (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, labels TEXT NOT NULL,
        pid INTEGER NOT NULL DEFAULT 0, span_start INTEGER NOT NULL DEFAULT 0, span_end INTEGER NOT NULL DEFAULT 0);
    PRAGMA user_version = 4;";

fn file(parts: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let db = Connection::open(&path).unwrap();
    for part in parts {
        db.execute_batch(&part.replace("START", &START.to_string())).unwrap();
    }
    (folder, path)
}

fn open(parts: &[&str]) -> (TempDir, Reader) {
    let (folder, path) = file(parts);
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

/// A copy, a launch and the driver's launch in it, in which the thread lost the CPU; a launch of another thread.
const ROWS: &str = "
    INSERT INTO sessions (started_at, gpu_model, flags, ingero_ver) VALUES (START + 50, 'T4', 'stack,record', 'dev');
    INSERT INTO process_names VALUES (10, 'python3'), (11, 'a thread');
    INSERT INTO stack_traces (hash, ips) VALUES (-5, '[\"0x10\",\"0x20\"]');
    INSERT INTO events (timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code, stack_hash) VALUES
        (START, 10, 10, 1, 7, 1000, 4096, 2, 0, -5),
        (START + 2000, 10, 10, 1, 3, 100, 80, 0, 0, 0), (START + 2010, 10, 10, 4, 1, 50, 96, 0, 700, 0),
        (START + 3000, 10, 10, 1, 3, 100, 80, 0, 0, 0), (START + 4000, 10, 10, 1, 3, 1000, 80, 0, 0, 0),
        (START + 4800, 10, 10, 3, 1, 400, 0, 10, 0, 0),
        (START + 4900, 12, 13, 3, 2, 0, 0, 10, 0, 0),
        (START + 6000, 10, 11, 1, 5, 500, 0, 0, 0, 0),
        (START + 7000, 10, 11, 7, 2, 600, 9, 64, 0, 0),
        (START + 8000, 66, 66, 5, 2, 700, 8, 1234, 0, 0),
        (START + 9000, 0, 0, 6, 1, 0, (16777226 << 32) | 33554442, (5000 << 16) | 443, 0, 0),
        (START + 9100, 10, 10, 3, 7, 0, 0, 14, 0, 0),
        (START + 9200, 1, 1, 3, 4, 0, 0, 10, 0, 0),
        (START + 9300, 10, 10, 99, 1, 0, 0, 0, 0, 0);";

#[test]
fn rows_of_the_oldest_are_ours_with_their_starts() {
    let (_folder, reader) = open(&[OLD, ROWS]);
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, layer, op, duration_ns, pid, tid, bytes FROM events ORDER BY 1"),
        [
            "+0|cuda|cudaMemcpyAsync|1000|10|10|4096",
            "+2000|cuda|cudaLaunchKernel|100|10|10|0",
            "+2010|cuda|cuLaunchKernel|50|10|10|0",
            "+3000|cuda|cudaLaunchKernel|100|10|10|0",
            "+4000|cuda|cudaLaunchKernel|1000|10|10|0",
            "+4400|sched|sched_switch|400|10|10|-",
            "+4900|sched|sched_wakeup|-|-|10|-",
            "+6000|cuda|cudaStreamSynchronize|500|10|11|0",
            "+6400|net|net_recv|600|10|11|64",
            "+7300|io|block_write|700|66|66|4096",
            "+9000|tcp|tcp_retransmit_skb|-|-|-|-",
            "+9100|process|process_fork|-|10|10|-",
            "+9200|mem|oom_kill|-|10|-|-",
        ]
    );
    assert_eq!(
        lines(&reader, "SELECT saddr, sport, daddr, dport FROM tcp_events"),
        ["10.0.0.1|5000|10.0.0.2|443"]
    );
    assert_eq!(lines(&reader, "SELECT sector, rw FROM io_events"), ["1234|write"]);
    assert_eq!(
        lines(&reader, "SELECT by_pid, by_tid FROM sched_events ORDER BY timestamp_ns"),
        ["-|-", "12|13"]
    );
    assert_eq!(lines(&reader, "SELECT child FROM process_events"), ["14"]);
    assert_eq!(lines(&reader, "SELECT by_pid FROM mem_events"), ["1"]);
    assert_eq!(
        lines(
            &reader,
            "SELECT op, direction, handle, ret, kept, oncpu_ns, blocked_ns, first_launch FROM cuda_events LIMIT 3"
        ),
        [
            "cudaMemcpyAsync|device_to_host|-|0|-|-|-|-",
            "cudaLaunchKernel|-|0x50|0|-|-|-|-",
            "cuLaunchKernel|-|0x60|700|-|-|-|-"
        ]
    );
    assert_eq!(lines(&reader, "SELECT depth, address, kind FROM frames"), ["0|0x10|native", "1|0x20|native"]);
    // Its own tables are there, too.
    assert_eq!(lines(&reader, "SELECT count(*) FROM main.events"), ["14"]);
    assert_eq!(lines(&reader, "SELECT name FROM process_names WHERE pid = 10"), ["python3"]);
    assert_eq!(lines(&reader, "SELECT count(*) FROM schema_doc WHERE table_name = 'main.events'"), ["12"]);
}

#[test]
fn every_typed_question_answers() {
    let (_folder, reader) = open(&[OLD, ROWS]);
    let all = Filter::default();
    assert_eq!(reader.event_count().unwrap(), 13);
    // What is in none of our tables is a row of the file, too.
    assert_eq!(reader.newest_ns().unwrap(), Some(START + 9300));
    let span = reader.span().unwrap().unwrap();
    assert_eq!((span.start_ns, span.end_ns), (START, START + 9300));
    let calls = reader.calls(&all).unwrap();
    assert_eq!((calls.len(), calls[0].start_ns, calls[0].bytes), (6, START, 4096));
    assert_eq!((calls[0].direction, calls[0].stack_id), (Some(Direction::DeviceToHost), Some(-5)));
    let launches =
        Filter { op: Some("cudaLaunchKernel".into()), from_ns: Some(START + 2500), ..Filter::default() };
    assert_eq!(reader.calls(&launches).unwrap().len(), 2);
    assert_eq!(reader.events(&launches, &Limits::default()).unwrap().rows.len(), 2);
    let stats = reader.call_stats(&launches).unwrap();
    assert_eq!(stats.len(), 0, "windows that began earlier");
    let stats = reader.call_stats(&Filter { from_ns: None, ..launches.clone() }).unwrap();
    assert_eq!((stats[0].count, stats[0].sum_ns, stats[0].hist.total(), stats[0].max_ns), (3, 1200, 3, 1000));
    assert_eq!(
        lines(&reader, "SELECT op, count, max_us, oncpu_pct, errors FROM op_summary LIMIT 2"),
        ["cudaLaunchKernel|3|1|-|0", "cudaMemcpyAsync|1|1|-|0"]
    );
    let ops = reader.ops().unwrap();
    assert!(ops.iter().all(|op| op.layer == Layer::Cuda));
    assert!(ops.iter().any(|op| op.name == "cudaStreamSynchronize" && op.waits_for_gpu));
    let sessions = reader.sessions().unwrap();
    assert_eq!((sessions.len(), &sessions[0].info.gpus[..]), (1, &["T4".to_string()][..]));
    assert_eq!(sessions[0].info.flags, ["stack", "record"]);
    let processes = reader.processes().unwrap();
    assert!(processes.iter().any(|process| process.pid == 10 && process.comm == "python3"));
    assert!(processes.iter().all(|process| process.pid != 11), "a thread is no process");
    assert!(reader.blame(&all).unwrap().is_empty() && reader.losses().unwrap().is_empty());
    assert_eq!(reader.deleted_before_ns().unwrap(), None);
}

#[test]
fn it_says_what_it_cannot_tell() {
    let (_folder, reader) = open(&[OLD, ROWS]);
    let origin = reader.origin();
    assert_eq!((origin.maker, origin.schema.as_str(), origin.has_blame()), (Maker::Ingero, "0.6", false));
    let coverage = reader.coverage(None).unwrap();
    assert_eq!((coverage.lost, coverage.sampled, &coverage.notes), (0, 0, &origin.notes));
    let notes = origin.notes.join("\n");
    for words in [
        "biased sample",
        "p50 and p99 are of stored rows",
        "sums over all calls are empty",
        "no blame clock",
        "losses are not known",
        "starts are computed",
        "there twice",
        "nothing tells containers apart",
        "only in main.events: source 99 op 1",
        "do not say whose they are",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let (_folder, reader) = open(&[OLD, LATER, NEWEST, "UPDATE schema_info SET value = '0.12'"]);
    let notes = reader.origin().notes.join("\n");
    assert!(notes.contains("schema 0.12 is newer") && notes.contains("no scheduler rows"), "{notes}");
}

#[test]
fn off_cpu_time_is_that_of_the_calling_thread_within_slow_calls() {
    let (_folder, reader) = open(&[OLD, ROWS]);
    let slow = reader.off_cpu_within(&Filter::default()).unwrap();
    let launch = slow.iter().find(|calls| calls.op == "cudaLaunchKernel").unwrap();
    assert_eq!((launch.pid, launch.calls, launch.p50_ns, launch.p99_ns), (10, 3, 100, 1000));
    assert_eq!((launch.slow_calls, launch.slow_ns, launch.off_cpu_ns), (1, 1000, 400));
    assert_eq!(launch.off_cpu_pct(), Some(40.0));
    let one = Filter { op: Some("cuLaunchKernel".into()), pid: Some(10), ..Filter::default() };
    let one = reader.off_cpu_within(&one).unwrap();
    assert_eq!((one.len(), one[0].calls, one[0].slow_calls), (1, 1, 0));
}

#[test]
fn containers_frames_and_names_of_later_files() {
    let rows = "
        INSERT INTO cgroup_metadata VALUES (7, 'abc', '/kube/abc', 'trainer-0', 'ml');
        UPDATE events SET cgroup_id = 7 WHERE source = 1;
        UPDATE events SET cgroup_id = 8 WHERE source = 3;
        INSERT INTO stack_traces VALUES (6, '[\"0x1\"]', '[{\"i\":\"0x1\",\"s\":\"cudaMalloc+0x1f\",\"f\":\"libcudart.so\"},
            {\"pf\":\"train.py\",\"pfn\":\"step\",\"pl\":12},{\"s\":\"f\",\"f\":\"a.so\",\"l\":3}]'), (7, '', 'not a list');
        INSERT INTO annotations (timestamp, labels, pid, span_start, span_end)
            VALUES (START, '{\"step\":\"4\",\"epoch\":\"1\"}', 10, START + 10, START + 30);
        UPDATE events SET rank = 3, world_size = 8, node = 'node-a', comm = 'worker';
        UPDATE sessions SET node = 'node-a';
        DELETE FROM process_names;";
    let (_folder, reader) = open(&[OLD, ROWS, LATER, NEWEST, rows]);
    assert_eq!(
        lines(
            &reader,
            "SELECT depth, kind, function, file, line, module, address FROM frames WHERE stack_id = 6"
        ),
        ["0|native|cudaMalloc|-|-|libcudart.so|0x1", "1|python|step|train.py|-|-|-", "2|native|f|-|3|a.so|-"]
    );
    assert_eq!(lines(&reader, "SELECT count(*) FROM frames WHERE stack_id = 7"), ["0"]);
    let process = reader.processes().unwrap().into_iter().find(|process| process.pid == 10).unwrap();
    assert_eq!(
        (process.comm.as_str(), process.cgroup_id, process.cgroup.as_str()),
        ("worker", 7, "/kube/abc")
    );
    assert_eq!(
        (process.rank, process.world_size, process.pod.as_deref()),
        (Some(3), Some(8), Some("trainer-0"))
    );
    assert_eq!(process.container.unwrap().namespace.as_deref(), Some("ml"));
    assert_eq!(lines(&reader, "SELECT DISTINCT node, rank FROM events WHERE pid = 10"), ["node-a|3"]);
    assert_eq!(lines(&reader, "SELECT DISTINCT cgroup_id FROM sched_events"), ["-"]);
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, duration_ns, event, value, pid FROM annotations"),
        ["+10|20|step|4|10"]
    );
}

#[test]
fn rows_of_a_merged_file_are_of_the_session_of_their_node() {
    let rows = "
        UPDATE sessions SET node = 'a';
        INSERT INTO sessions (started_at, node) VALUES (START + 20, 'b'), (START + 5000, 'b');
        INSERT INTO events (timestamp, pid, tid, source, op, duration, node) VALUES
            (START + 10, 10, 10, 1, 1, 5, 'b'), (START + 6000, 10, 10, 1, 1, 5, 'b'), (START + 7000, 10, 10, 1, 1, 5, 'a');";
    let (_folder, reader) = open(&[OLD, ROWS, LATER, NEWEST, rows]);
    let of = |sql: &str| lines(&reader, &format!("{sql} WHERE op = 'cudaMalloc' ORDER BY timestamp_ns"));
    assert_eq!(of("SELECT session_id FROM cuda_events"), ["2", "3", "1"]);
    assert_eq!(of("SELECT node FROM events"), ["b", "b", "a"]);
    assert!(reader.origin().notes.iter().any(|note| note.contains("several nodes")));
    let sums = reader.off_cpu_within(&Filter { op: Some("cudaMalloc".into()), ..Filter::default() }).unwrap();
    let mut nodes: Vec<_> = sums.iter().map(|sum| (sum.node.as_deref(), sum.calls)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [(Some("a"), 1), (Some("b"), 2)]);
}

#[test]
fn sums_over_all_calls_count_what_was_not_stored() {
    let minute = START / 60_000_000_000 * 60_000_000_000;
    let sums = format!(
        "INSERT INTO event_aggregates VALUES ({minute}, 1, 3, 10, 500, 3, 60000, 20, 1000), ({minute}, 1, 1, 10, 7, 0, 70, 9, 11),
         ({minute}, 4, 1, 10, 0, 0, 0, 0, 0), ({minute}, 3, 1, 10, 9, 9, 9, 9, 9)"
    );
    let (_folder, reader) = open(&[OLD, ROWS, &sums]);
    assert_eq!(
        lines(&reader, "SELECT op, count, kept, sum_ns, min_ns, max_ns, hist FROM call_stats ORDER BY op"),
        [
            "cuLaunchKernel|1|1|50|50|50|{\"0\":1}",
            "cudaLaunchKernel|500|3|60000|20|1000|{\"1\":2,\"15\":1}",
            "cudaMalloc|7|0|70|9|11|{}",
            "cudaMemcpyAsync|1|1|1000|1000|1000|{\"15\":1}",
            "cudaStreamSynchronize|1|1|500|500|500|{\"7\":1}",
        ]
    );
    assert_eq!(lines(&reader, "SELECT op, count FROM op_summary WHERE op = 'cudaMalloc'"), ["cudaMalloc|7"]);
    // 507 were counted, and six rows are calls.
    assert_eq!(reader.coverage(None).unwrap().sampled, 501);
    assert_eq!(reader.coverage(Some(START + 70_000_000_000)).unwrap().sampled, 0);
    assert!(reader.origin().notes[1].starts_with("counts, sums"), "{:?}", reader.origin().notes);
}

#[test]
fn operations_nobody_knows_keep_the_name_the_file_gives_them() {
    let rows = "INSERT INTO ops VALUES (1, 77, 'cudaNovelty', '');
        INSERT INTO events (timestamp, pid, tid, source, op, duration) VALUES (START, 1, 1, 1, 77, 5), (START, 1, 1, 4, 78, 5)";
    let (_folder, reader) = open(&[OLD, rows]);
    assert_eq!(lines(&reader, "SELECT op FROM cuda_events ORDER BY 1"), ["cudaNovelty", "source 4 op 78"]);
}

#[test]
fn calls_are_found_by_time() {
    for parts in [&[OLD, ROWS][..], &[OLD, ROWS, LATER], &[OLD, ROWS, LATER, NEWEST]] {
        let (_folder, reader) = open(parts);
        let plan = |sql: &str| lines(&reader, &format!("EXPLAIN QUERY PLAN {sql}")).join("\n");
        for table in ["calls", "cuda_events"] {
            let plan = plan(&format!("SELECT * FROM {table} WHERE timestamp_ns BETWEEN 5 AND 10"));
            assert!(plan.contains("SEARCH e USING INDEX idx_events_timestamp"), "{plan}");
        }
        let plan = plan("SELECT * FROM sched_events WHERE timestamp_ns > 5");
        assert!(plan.contains("SEARCH e USING INDEX idx_events_source_op"), "{plan}");
    }
}

#[test]
fn reading_leaves_the_file_alone_and_writing_is_refused() {
    let (folder, path) = file(&[OLD, ROWS, LATER]);
    let before = std::fs::read(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    for sql in
        ["DELETE FROM main.events", "DELETE FROM processes", "DROP VIEW calls", "INSERT INTO ops VALUES (1)"]
    {
        reader.sql(sql, &Limits::default()).unwrap_err();
    }
    reader.off_cpu_within(&Filter::default()).unwrap();
    drop(reader);
    let error =
        Writer::create_or_append(&path, &session(), &ops(), &Options::default()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What the reader says to a file, in one sentence.
fn refused(path: &Path) -> String {
    let words = Reader::open(path).map(drop).unwrap_err().to_string();
    assert!(words.contains("other.db") && words.contains(';') && !words.contains('\n'), "{words}");
    words
}

#[test]
fn half_a_file_is_told_in_a_sentence() {
    let (_folder, path) = file(&[OLD, "DROP TABLE events"]);
    assert!(refused(&path).contains("looks like a trace of Ingero, but its table events is missing"));
    let (_folder, path) = file(&[OLD, "ALTER TABLE events RENAME COLUMN tid TO thread"]);
    assert!(refused(&path).contains("its column events.tid is missing"));
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO events (timestamp, pid, tid, source, op, duration) SELECT START + i, 1, 1, 1, 3, 5 FROM n";
    let (_folder, path) = file(&[OLD, many]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    assert!(refused(&path).contains("last page is not whole"));
    std::fs::write(&path, &bytes[..bytes.len() / 2 / 4096 * 4096]).unwrap();
    assert!(refused(&path).contains("is damaged"));
}
