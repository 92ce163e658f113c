//! Limits hold for every file, whoever made it and with whatever.

use crate::made::{ops, session, writer};
use gpuwhy_store::{Limits, Options, Reader, StoreError, Value, Writer, schema};
use rusqlite::Connection;
use std::path::Path;

const INGERO: &str = include_str!("ingero.sql");
const LARGE_SORT: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                            SELECT i, zeroblob(1000000) AS b FROM n ORDER BY i DESC";

/// A file of today, one of version 1 and one of another tool.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let today = folder.join("today.db");
    writer(&today).finish(1).unwrap();
    let (old, other) = (folder.join("old.db"), folder.join("other.db"));
    Connection::open(&old).unwrap().execute_batch(include_str!("v1.sql")).unwrap();
    Connection::open(&other).unwrap().execute_batch(INGERO).unwrap();
    vec![today, old, other]
}

#[test]
fn sorting_spills_to_files_that_are_limited_whoever_made_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let reader = Reader::open(&path).unwrap();
        let limits = Limits { spill: 64 << 20, ..Limits::default() };
        // The answer itself would be a long message.
        let message = reader.sql(LARGE_SORT, &limits).map(|answer| answer.rows.len()).unwrap_err();
        assert!(matches!(message, StoreError::TooLarge(_)), "{}: {message}", path.display());
        assert!(message.to_string().contains("64 MiB of temporary files"), "{message}");
    }
}

#[test]
fn texts_that_have_to_be_converted_are_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.db");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "encoding", "UTF-16").unwrap();
    schema::create(&db).unwrap();
    drop(db);
    let message = Reader::open(&path).unwrap_err();
    assert!(message.to_string().contains("its texts are UTF-16"), "{message}");
}

#[test]
fn a_file_that_computes_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    for (number, sql) in [
        "CREATE TABLE more (a CHECK (length(randomblob(1000000000)) > 0))",
        "CREATE TABLE more (a DEFAULT (randomblob(1000000000)))",
        "CREATE INDEX more ON calls (length(zeroblob(pid)))",
        "CREATE INDEX more ON calls (pid) WHERE length(zeroblob(pid)) > 0",
    ]
    .iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{number}.db"));
        writer(&path).finish(1).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let message = Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap_err();
        assert!(message.to_string().contains("more computes something for every row"), "{sql}: {message}");
        assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 0, "it can be read");
    }
}

/// A trigger would run with the rights of whoever writes.
#[test]
fn triggers_of_a_file_do_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    writer(&path).finish(1).unwrap();
    let sql = "CREATE TRIGGER more AFTER INSERT ON sessions BEGIN DELETE FROM schema_doc; END";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    writer(&path).finish(2).unwrap();
    let reader = Reader::open(&path).unwrap();
    let count = reader.sql("SELECT count(*) > 100 FROM schema_doc", &Limits::default()).unwrap();
    assert_eq!(count.rows, [[Value::Integer(1)]]);
    assert_eq!(reader.sessions().unwrap().len(), 2);
}

#[test]
fn times_and_counts_below_zero_are_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.db");
    writer(&path).finish(1).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "INSERT INTO processes (pid, parent_pid, start_ns, end_ns, comm) VALUES (7, -1, -5, -9, 'x');
         INSERT INTO loss (start_ns, end_ns, probe, cpu, reason, count) VALUES (-3, 9, 'cuda', 0, 'full', -4);
         INSERT INTO retention (time_ns, before_ns, rows) VALUES (1, -8, 1);",
    )
    .unwrap();
    drop(db);
    let reader = Reader::open(&path).unwrap();
    let processes = reader.processes().unwrap();
    let process = processes.iter().find(|process| process.pid == 7).unwrap();
    assert_eq!((process.start_ns, process.end_ns), (0, Some(0)));
    assert_eq!(reader.deleted_before_ns().unwrap(), Some(0));
    let coverage = reader.coverage(None).unwrap();
    assert_eq!((coverage.lost, coverage.lost_by[0].count), (0, 0));
}
