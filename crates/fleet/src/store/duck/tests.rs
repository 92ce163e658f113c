//! The file: what was written is there, once, whatever happened; nothing that only asks changes it.

use super::schema::MIGRATIONS;
use super::{DuckOptions, DuckStore};
use crate::journal::Position;
use crate::point::{Batch, Collective, Event, Found, Kind, Origin, Seen};
use crate::store::{Filter, Reach, Retention, Sink, Stop, Store, StoreError};
use duckdb::Connection;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn options() -> DuckOptions {
    DuckOptions { memory: "512MB".into(), threads: 2, temporary: "1GB".into(), ..DuckOptions::default() }
}

pub(super) fn open(folder: &Path) -> DuckStore {
    DuckStore::open(folder, options()).unwrap()
}

fn origin(cluster: &str, rank: i32) -> Origin {
    let node = format!("{cluster}-node{}", rank / 4);
    Origin {
        cluster: cluster.into(),
        node: node.into(),
        job: Some("job".into()),
        rank: Some(rank),
        nranks: Some(8),
    }
}

pub(super) fn event(cluster: &str, rank: i32, at_ns: i64, value: f64) -> Event {
    Event {
        timestamp_ns: at_ns,
        origin: origin(cluster, rank),
        name: "gpuwhy.rank.health".into(),
        kind: Kind::Gauge,
        double: Some(value),
        int: None,
        attrs: Some("{\"class\":\"io.block\"}".into()),
    }
}

pub(super) fn batch(id: i128, events: Vec<Event>) -> Batch {
    let nodes = events
        .iter()
        .map(|event| Seen {
            cluster: event.origin.cluster.clone(),
            node: event.origin.node.clone(),
            at_ns: event.timestamp_ns,
            points: 1,
            resource: "{}".into(),
        })
        .collect();
    Batch { id, received_ns: id as i64, events, nodes, ..Batch::default() }
}

fn filled(folder: &Path) -> DuckStore {
    let store = open(folder);
    let ranks =
        |cluster| (0..8).flat_map(move |rank| (0..10).map(move |n| event(cluster, rank, n, f64::from(rank))));
    store
        .write(&[&batch(1, ranks("a").collect()), &batch(2, ranks("b").collect())], Position::default())
        .unwrap();
    store
}

pub(super) fn count(store: &DuckStore, table: &str) -> i64 {
    let rows =
        store.sql(&format!("SELECT count(*) FROM {table}"), Reach::default(), &Stop::default()).unwrap();
    rows.rows[0][0].as_i64().unwrap()
}

#[test]
fn rows_of_all_tables_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut written = batch(7, vec![event("a", 3, 1_000, 0.25)]);
    written.collectives = vec![Collective {
        start_ns: 5,
        duration_ns: None,
        origin: origin("a", 3),
        comm_id_hash: "0xab".into(),
        seq: Some(41),
        comm_rank: Some(1),
        comm_nranks: Some(2),
        peer: None,
        op: "ALL_REDUCE".into(),
        count: Some(1024),
        datatype: Some("float32".into()),
        reduce_op: None,
        pid: Some(9),
        tid: None,
    }];
    written.findings = vec![Found {
        timestamp_ns: 6,
        origin: origin("a", 3),
        source: "node",
        class: Some("io.block".into()),
        severity: None,
        title: "größe".into(),
        pid: None,
        finding: Some("{}".into()),
    }];
    store.write(&[&written], Position::default()).unwrap();
    let (all, reach, stop) = (Filter::default(), Reach::default(), Stop::default());
    let rows = store.events(&all, reach, &stop).unwrap().objects();
    let expected = json!({
        "timestamp_ns": 1_000, "cluster_id": "a", "node_id": "a-node0", "metric_name": "gpuwhy.rank.health", "rank": 3, "nranks": 8,
        "value_double": 0.25, "value_int": null, "attrs": "{\"class\":\"io.block\"}", "job_id": "job", "kind": "gauge",
    });
    assert_eq!(rows.into_iter().map(Value::Object).collect::<Vec<_>>(), [expected]);
    assert_eq!(store.collectives(&all, 10, &stop).unwrap(), written.collectives);
    assert_eq!(store.findings(&all, reach, &stop).unwrap().objects()[0]["title"], "größe");
    let node = store.nodes(&all, reach, &stop).unwrap().objects().remove(0);
    assert_eq!((&node["node_id"], &node["first_seen_ns"]), (&json!("a-node0"), &json!(1_000)));
    assert_eq!(store.recent().unwrap(), [7]);
}

#[test]
fn a_collective_told_twice_is_one_and_its_end_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let row = |duration_ns| Collective {
        start_ns: 5,
        duration_ns,
        origin: origin("a", 3),
        comm_id_hash: "0xab".into(),
        seq: Some(41),
        comm_rank: Some(1),
        comm_nranks: Some(2),
        peer: None,
        op: "ALL_REDUCE".into(),
        count: None,
        datatype: None,
        reduce_op: None,
        pid: None,
        tid: None,
    };
    let one = Batch { id: 1, collectives: vec![row(None)], ..Batch::default() };
    let two = Batch { id: 2, collectives: vec![row(Some(30))], ..Batch::default() };
    store.write(&[&one], Position::default()).unwrap();
    store.write(&[&two], Position::default()).unwrap();
    assert_eq!(store.collectives(&Filter::default(), 10, &Stop::default()).unwrap(), [row(Some(30))]);
}

#[test]
fn a_filter_lets_through_what_it_says_and_a_tenant_sees_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let (reach, stop) = (Reach::default(), Stop::default());
    let of = |clusters: &[&str]| Some(clusters.iter().map(ToString::to_string).collect::<Vec<_>>());
    let counted = |filter: Filter| store.events(&filter, reach, &stop).unwrap().rows.len();
    assert_eq!(counted(Filter::default()), 160);
    assert_eq!(counted(Filter { clusters: of(&["a"]), ..Filter::default() }), 80);
    assert_eq!(counted(Filter { clusters: of(&[]), ..Filter::default() }), 0);
    assert_eq!(counted(Filter { rank: Some(3), from_ns: Some(2), to_ns: Some(4), ..Filter::default() }), 4);
    assert_eq!(counted(Filter { node: Some("' OR 1=1 --".into()), ..Filter::default() }), 0);
    let ranks = store.by_rank(&Filter { clusters: of(&["a"]), ..Filter::default() }, &stop).unwrap();
    let medians: Vec<_> = ranks.iter().map(|rank| (rank.rank, rank.median, rank.points)).collect();
    assert_eq!(medians, (0..8).map(|rank| (Some(rank), f64::from(rank), 10)).collect::<Vec<_>>());
    let analysed = |clusters: Option<&[String]>| {
        let sql = "SELECT cluster_id, count(*) AS n FROM events GROUP BY cluster_id ORDER BY ALL";
        store.analysis(sql, clusters, reach, &stop).unwrap().rows
    };
    assert_eq!(analysed(None), [[json!("a"), json!(80)], [json!("b"), json!(80)]]);
    assert_eq!(analysed(Some(&["b".into()])), [[json!("b"), json!(80)]]);
    assert!(analysed(Some(&[])).is_empty());
}

#[test]
fn answers_are_cut_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let few = Reach { rows: 5, ..Reach::default() };
    let rows = store.sql("SELECT * FROM events", few, &Stop::default()).unwrap();
    assert_eq!((rows.rows.len(), rows.truncated), (5, true));
    let small = Reach { bytes: 1_000, ..Reach::default() };
    let rows = store.sql("SELECT repeat('x', 600) FROM events", small, &Stop::default()).unwrap();
    assert_eq!((rows.rows.len(), rows.truncated), (2, true));
}

#[test]
fn no_statement_writes_reads_files_or_changes_settings() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.csv");
    std::fs::write(&secret, "a\nhidden\n").unwrap();
    let outside = folder.path().join("out.csv");
    let store = filled(folder.path());
    let (secret, out) = (secret.display().to_string(), outside.display().to_string());
    let statements = [
        "DELETE FROM events".to_string(),
        "DROP TABLE events".into(),
        "INSERT INTO batches VALUES (1, 1)".into(),
        "CREATE TABLE x (a INT)".into(),
        "CREATE TEMP TABLE x AS SELECT 1".into(),
        "SELECT 1; DROP TABLE events; SELECT 2".into(),
        "COMMIT; DROP TABLE events; SELECT 1".into(),
        "ROLLBACK; BEGIN; DELETE FROM events; COMMIT; SELECT 1".into(),
        "SELECT 1') LIMIT 1; DROP TABLE events; SELECT * FROM query('SELECT 1".into(),
        "SELECT 1'); DROP TABLE events; --".into(),
        "SELECT * FROM query('DROP TABLE events')".into(),
        format!("SELECT * FROM read_csv('{secret}')"),
        format!("SELECT * FROM '{secret}'"),
        format!("SELECT * FROM read_text('{secret}')"),
        "SELECT * FROM glob('/etc/*')".into(),
        format!("COPY events TO '{out}'"),
        format!("EXPORT DATABASE '{out}'"),
        format!("ATTACH '{out}' AS x"),
        "ATTACH ':memory:' AS x".into(),
        "INSTALL httpfs".into(),
        "LOAD httpfs".into(),
        "SET enable_external_access = true".into(),
        "SET lock_configuration = false".into(),
        "SET memory_limit = '100GB'".into(),
        "PRAGMA enable_profiling".into(),
        "CALL force_checkpoint()".into(),
        "CHECKPOINT".into(),
        "USE memory".into(),
        "PREPARE x AS DELETE FROM events".into(),
        "EXECUTE x".into(),
        "WITH gone AS (DELETE FROM events RETURNING *) SELECT * FROM gone".into(),
        "SELECT 1\0; DROP TABLE events".into(),
        String::new(),
    ];
    for statement in &statements {
        let refused = store.sql(statement, Reach::default(), &Stop::default());
        assert!(refused.is_err(), "{statement}: {refused:?}");
    }
    assert_eq!((count(&store, "events"), count(&store, "batches")), (160, 2));
    assert!(!outside.exists());
    for fine in [
        "SELECT 'it''s; fine' AS \"a;b\" -- and so is this",
        "FROM events",
        "WITH x AS (SELECT 1) SELECT * FROM x;",
    ] {
        store.sql(fine, Reach::default(), &Stop::default()).unwrap();
    }
    // It is written to as before.
    store.write(&[&batch(3, vec![event("a", 0, 0, 0.0)])], Position::default()).unwrap();
}

#[test]
fn what_takes_too_long_is_ended_and_so_is_what_nobody_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(filled(folder.path()));
    let endless = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b";
    let short = Reach { time: Duration::from_millis(100), ..Reach::default() };
    let slow = store.sql(endless, short, &Stop::default()).unwrap_err();
    assert_eq!(slow, StoreError::Slow(short.time));
    let stop = Stop::default();
    let (asked, other) = (store.clone(), stop.clone());
    let asking = std::thread::spawn(move || asked.sql(endless, Reach::default(), &other).unwrap_err());
    stop.stop();
    assert_eq!(asking.join().unwrap(), StoreError::Stopped);
}

#[test]
fn a_snapshot_has_all_that_was_written_and_stays_as_it_is_while_more_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let snapshot = {
        let _open = store.lock();
        super::snapshot::Snapshot::make(store.path()).unwrap()
    };
    store.write(&[&batch(3, vec![event("a", 0, 0, 0.0)])], Position::default()).unwrap();
    let config = duckdb::Config::default().access_mode(duckdb::AccessMode::ReadOnly).unwrap();
    let reader = Connection::open_with_flags(snapshot.file(), config).unwrap();
    let rows = |reader: &Connection| -> i64 {
        reader.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(&reader), 160);
    assert!(reader.execute_batch("DELETE FROM events").is_err());
    let more: Vec<Event> = (0..300_000).map(|at| event("b", 1, at, 0.5)).collect();
    store.write(&[&batch(4, more)], Position::default()).unwrap();
    assert_eq!(rows(&reader), 160, "row groups that are written meanwhile are not its own");
    assert_eq!(count(&store, "events"), 300_161);
    let at = snapshot.folder().to_path_buf();
    drop((reader, snapshot));
    assert!(!at.exists());
}

#[test]
fn too_much_memory_is_refused_and_the_store_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        DuckOptions { memory: "64MB".into(), threads: 1, temporary: "1MB".into(), ..DuckOptions::default() };
    let store = DuckStore::open(folder.path(), options).unwrap();
    let greedy = "SELECT sum(len(l)) FROM (SELECT range // 2 AS k, list(repeat('x', 200) || range) AS l FROM range(5000000) GROUP BY k)";
    let message = store.sql(greedy, Reach::default(), &Stop::default()).unwrap_err().to_string();
    assert!(message.to_lowercase().contains("memory") || message.contains("temp"), "{message}");
    store.write(&[&batch(3, vec![event("a", 0, 0, 0.0)])], Position::default()).unwrap();
    assert_eq!(count(&store, "events"), 1);
}

#[test]
fn there_is_one_writer_and_a_newer_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let second = DuckStore::open(folder.path(), options()).unwrap_err();
    assert!(second.to_string().contains("another gpuwhy-fleet"), "{second}");
    drop(store);
    let file = folder.path().join("fleet.duckdb");
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("INSERT INTO schema_version VALUES (99, 0, 'gpuwhy-fleet 9.0')").unwrap();
    drop(connection);
    let newer = DuckStore::open(folder.path(), options()).unwrap_err();
    assert!(newer.to_string().contains("newer gpuwhy-fleet (schema 99"), "{newer}");
    let connection = Connection::open(&file).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 160, "nothing was touched");
}

#[test]
fn a_store_opened_again_has_all_of_it_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path()));
    let store = open(folder.path());
    store
        .write(
            &[&batch(3, vec![event("a", 0, 50, 1.0), event("c", 0, 60, 1.0)])],
            Position { segment: 3, offset: 70 },
        )
        .unwrap();
    assert_eq!((count(&store, "events"), count(&store, "nodes")), (162, 5));
    assert_eq!(store.recent().unwrap(), [1, 2, 3]);
    assert_eq!(count(&store, "schema_version"), 3);
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.stored().unwrap(), Position { segment: 3, offset: 70 });
    store.forget_batches(3).unwrap();
    assert_eq!(store.recent().unwrap(), [3]);
}

#[test]
fn a_file_from_before_senders_has_its_rows_and_takes_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("fleet.duckdb")).unwrap();
    for (index, migration) in MIGRATIONS[..2].iter().enumerate() {
        connection.execute_batch(migration).unwrap();
        let applied = format!("INSERT INTO schema_version VALUES ({}, 0, 'gpuwhy-fleet 0.1')", index + 1);
        connection.execute_batch(&applied).unwrap();
    }
    connection
        .execute_batch("INSERT INTO events VALUES (5, 'a', 'n', 'm', 0, 8, 0.5, NULL, NULL, NULL, 'gauge')")
        .unwrap();
    drop(connection);
    let store = open(folder.path());
    let new = Batch { sender: u32::MAX, ..batch(1, vec![event("a", 0, 6, 1.0)]) };
    store.write(&[&new], Position::default()).unwrap();
    let by_sender = "SELECT sender, timestamp_ns FROM events ORDER BY ALL";
    let rows = store.sql(by_sender, Reach::default(), &Stop::default()).unwrap().rows;
    assert_eq!(rows, [vec![json!(0), json!(5)], vec![json!(u32::MAX), json!(6)]]);
}

#[test]
fn what_is_too_old_or_too_much_is_forgotten_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store
        .write(&[&batch(1, (0..1_000).map(|at| event("a", 0, at, 0.0)).collect())], Position::default())
        .unwrap();
    let keep = Retention { age: Duration::from_nanos(900), bytes: u64::MAX };
    assert_eq!(store.forget(1_000, keep).unwrap().rows, 100);
    let oldest =
        store.sql("SELECT min(timestamp_ns) FROM events", Reach::default(), &Stop::default()).unwrap();
    assert_eq!(oldest.rows[0][0], 100);
    let little = Retention { age: Duration::from_secs(1), bytes: 1 };
    let rows = store.forget(1_000, little).unwrap().rows;
    assert!((40..60).contains(&rows), "a twentieth of what spans 900 ns went: {rows}");
    assert_eq!(count(&store, "events"), 900 - rows as i64);
}

#[test]
fn any_text_and_any_number_can_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut strange = event("a\0b\u{10ffff}'\"; DROP TABLE events", i32::MIN, i64::MIN, f64::NAN);
    strange.attrs = Some("\0".into());
    strange.int = Some(i64::MAX);
    let infinite = event("", i32::MAX, i64::MAX, f64::NEG_INFINITY);
    store
        .write(
            &[&batch(i128::MIN, vec![strange, infinite]), &batch(i128::MAX, Vec::new())],
            Position::default(),
        )
        .unwrap();
    assert_eq!((count(&store, "events"), count(&store, "batches")), (2, 2));
    assert_eq!(store.recent().unwrap().len(), 2);
}

/// How many of these rows are forgotten.
pub(crate) fn forgotten_at(now_ns: i64, age: Duration, times: &[i64]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let rows = times.iter().map(|at| event("a", 0, *at, 0.0)).collect();
    store.write(&[&batch(1, rows)], Position::default()).unwrap();
    store.forget(now_ns, Retention { age, bytes: u64::MAX }).unwrap().rows
}
