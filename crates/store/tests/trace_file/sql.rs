//! SQL of users: what reads is answered, what does anything else is refused by the engine.

use crate::made::{calls, writer};
use gpuwhy_model::Facts;
use gpuwhy_store::{Limits, Reader, StoreError, Value};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn reader() -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer.write(&calls(0..500), &Facts::default()).unwrap();
    writer.finish(1).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

fn error(reader: &Reader, sql: &str) -> StoreError {
    let limits = Limits { time: Duration::from_secs(2), ..Limits::default() };
    match reader.sql(sql, &limits) {
        Err(error) => error,
        Ok(answer) => panic!("{sql}: {answer:?}"),
    }
}

#[test]
fn reading_works_in_all_its_forms() {
    let (_folder, reader) = reader();
    for sql in [
        "SELECT 1",
        "select op, count(*) from cuda_events group by op -- a comment;",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n;",
        "SELECT *, row_number() OVER (ORDER BY timestamp_ns) FROM events LIMIT 3",
        "SELECT * FROM op_summary",
        "SELECT name FROM pragma_table_info('calls')",
        "PRAGMA table_info(calls)",
        "SELECT * FROM json_each('[1,2]')",
        "EXPLAIN QUERY PLAN SELECT * FROM cuda_events WHERE timestamp_ns > 5",
        "VALUES (1), (2)",
        "SELECT name FROM sqlite_master ; ; ",
    ] {
        reader.sql(sql, &Limits::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn whatever_would_change_something_is_refused() {
    let (folder, reader) = reader();
    for sql in [
        "DELETE FROM calls",
        "INSERT INTO ops VALUES (99, 'x', 'cuda', 'other', 0)",
        "REPLACE INTO ops VALUES (1, 'x', 'cuda', 'other', 0)",
        "UPDATE calls SET pid = 1",
        "DROP TABLE calls",
        "DROP VIEW events",
        "ALTER TABLE calls ADD COLUMN x",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE VIRTUAL TABLE temp.x USING dbstat(main)",
        "CREATE TRIGGER t AFTER INSERT ON calls BEGIN SELECT 1; END",
        "CREATE INDEX i ON calls (pid)",
        "WITH x AS (SELECT 1) INSERT INTO ops SELECT 99, 'x', 'cuda', 'other', 0 FROM x",
        "WITH x AS (SELECT 1) DELETE FROM calls WHERE pid IN (SELECT * FROM x)",
        "DELETE FROM calls RETURNING *",
        "EXPLAIN DELETE FROM calls",
        "SELECT 1; DELETE FROM calls",
        "ATTACH DATABASE '/tmp/gpuwhy-attached.db' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO '/tmp/gpuwhy-vacuumed.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SAVEPOINT s",
        "PRAGMA user_version = 5",
        "PRAGMA user_version",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA database_list",
        "PRAGMA hard_heap_limit = 1",
        "PRAGMA temp_store_directory = '/tmp'",
        "SELECT * FROM pragma_journal_mode",
        "SELECT * FROM pragma_database_list",
    ] {
        let message = error(&reader, sql);
        assert!(matches!(message, StoreError::ReadOnly), "{sql}: {message}");
    }
    assert_eq!(StoreError::ReadOnly.to_string(), "that SQL would change the trace; only SELECT is allowed");
    assert!(!std::path::Path::new("/tmp/gpuwhy-attached.db").exists());
    assert!(!std::path::Path::new("/tmp/gpuwhy-vacuumed.db").exists());
    assert_eq!(reader.event_count().unwrap(), 500);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn functions_that_reach_outside_are_refused() {
    let (_folder, reader) = reader();
    for sql in [
        "SELECT load_extension('/tmp/x.so')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT LOAD_EXTENSION('x', 'y')",
    ] {
        let message = error(&reader, sql);
        assert!(matches!(message, StoreError::Function(_) | StoreError::Sql(_)), "{sql}: {message}");
    }
    for sql in ["SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/x', 'y')", "SELECT edit('x')"] {
        let message = error(&reader, sql);
        assert!(matches!(message, StoreError::Sql(_)), "{sql}: {message}");
    }
}

#[test]
fn wrong_sql_is_explained() {
    let (_folder, reader) = reader();
    for (sql, words) in [
        ("", "no statement"),
        ("   ;  ", "no statement"),
        ("-- only a comment", "no statement"),
        ("/* only a comment */", "no statement"),
        ("SELECT 1; SELECT 2", "one at a time"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM cuda_event", "schema_doc"),
        ("SELECT duration FROM cuda_events", "schema_doc"),
        ("SELECT ?", "place holder"),
        ("SELECT :name", "place holder"),
        ("SELECT 'a", "unrecognized token"),
        ("SELECT zeroblob(1000000000)", "more than 16 MiB"),
        ("SELECT randomblob(1000000000)", "more than 16 MiB"),
        ("SELECT length(printf('%1000000000d', 1))", "more than 16 MiB"),
        ("SELECT replace(hex(zeroblob(8000000)), '0', 'xxxxxxxxxx')", "more than 16 MiB"),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
    ] {
        let message = error(&reader, sql);
        assert!(
            matches!(message, StoreError::Sql(_)) && message.to_string().contains(words),
            "{sql}: {message}"
        );
    }
    let deep = format!("SELECT 1{}", " + 1".repeat(2000));
    assert!(matches!(error(&reader, &deep), StoreError::Sql(_)));
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    assert!(matches!(error(&reader, &long), StoreError::Sql(_)));
}

#[test]
fn what_takes_too_long_is_stopped() {
    let (_folder, reader) = reader();
    let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
    for sql in [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM calls a, calls b, calls c, calls d",
        "SELECT a.pid FROM calls a, calls b, calls c ORDER BY a.duration_ns + b.tid + c.pid",
        "SELECT count(*) FROM (SELECT DISTINCT a.timestamp_ns + b.timestamp_ns + c.timestamp_ns FROM calls a, calls b, calls c)",
    ] {
        let begin = Instant::now();
        let message = reader.sql(sql, &limits).unwrap_err();
        assert!(matches!(message, StoreError::TooSlow(_)), "{sql}: {message}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{sql} took {:?}", begin.elapsed());
    }
    reader.sql("SELECT 1", &limits).unwrap();
}

#[test]
fn answers_are_cut_at_the_limits_and_say_so() {
    let (_folder, reader) = reader();
    let rows = |rows| Limits { rows, ..Limits::default() };
    let answer = reader.sql("SELECT pid FROM calls", &rows(499)).unwrap();
    assert_eq!((answer.rows.len(), answer.truncated), (499, true));
    let answer = reader.sql("SELECT pid FROM calls", &rows(500)).unwrap();
    assert_eq!((answer.rows.len(), answer.truncated), (500, false));
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let answer = reader.sql(endless, &Limits::default()).unwrap();
    assert_eq!((answer.rows.len(), answer.truncated), (10_000, true));
    let large =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT zeroblob(1000000) FROM n";
    let answer = reader.sql(large, &Limits::default()).unwrap();
    assert!(answer.truncated && answer.rows.len() == 67, "{}", answer.rows.len());
}

#[test]
fn values_keep_their_kinds() {
    let (_folder, reader) = reader();
    let answer = reader.sql(
        "SELECT NULL AS n, 1 AS i, 1.5 AS r, 'x' AS t, x'00ff' AS b, CAST(x'ff41' AS TEXT) AS o",
        &Limits::default(),
    );
    let answer = answer.unwrap();
    assert_eq!(answer.columns, ["n", "i", "r", "t", "b", "o"]);
    assert_eq!(
        answer.rows[0],
        [
            Value::Null,
            Value::Integer(1),
            Value::Real(1.5),
            Value::Text("x".into()),
            Value::Blob(vec![0, 255]),
            Value::Text("\u{fffd}A".into()),
        ]
    );
    let bound =
        reader.select("SELECT count(*) FROM calls WHERE pid = ?", &[Value::Integer(10)], &Limits::default());
    assert_eq!(bound.unwrap().rows[0][0], Value::Integer(500));
}
