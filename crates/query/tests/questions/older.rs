//! Files of an earlier version and of another tool answer what they can, and say of the rest that they have nothing.

use gpuwhy_query::ENDPOINTS;
use gpuwhy_store::Reader;
use serde_json::{Value, json};

#[test]
fn every_question_can_be_asked_of_a_file_of_version_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(include_str!("../../../store/tests/trace_file/v1.sql")).unwrap();
    db.execute_batch("INSERT INTO processes (pid, start_ns, comm) VALUES (10, 5, 'python')").unwrap();
    drop(db);
    asked(&Reader::open(&path).unwrap(), &["sql", "processes", "coverage", "trace"]);
}

/// Asks every question; these are answered.
fn asked(reader: &Reader, answered: &[&str]) {
    for endpoint in ENDPOINTS {
        let request = if endpoint.name == "sql" { json!({"statement": "SELECT 1"}) } else { Value::Null };
        let expected = answered.contains(&endpoint.name);
        match (endpoint.run)(reader, request) {
            Ok(_) => assert!(expected, "{}", endpoint.name),
            Err(error) => {
                assert_eq!((expected, error.exit_status()), (false, 3), "{}: {error}", endpoint.name);
            }
        }
    }
}

#[test]
fn every_question_can_be_asked_of_a_file_of_ingero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(include_str!("../../../store/tests/trace_file/ingero.sql")).unwrap();
    db.execute_batch(
        "INSERT INTO stack_traces VALUES (5, '[\"0x10\"]');
         INSERT INTO events (timestamp, pid, tid, source, op, duration, stack_hash) VALUES (5000, 10, 10, 1, 3, 700, 5)",
    )
    .unwrap();
    drop(db);
    let reader = Reader::open(&path).unwrap();
    let answered =
        ["explain", "sql", "events", "operations", "processes", "coverage", "trace", "timeline", "stacks"];
    asked(&reader, &answered);
    let operations = ENDPOINTS.iter().find(|endpoint| endpoint.name == "operations").unwrap();
    let answer = (operations.run)(&reader, Value::Null).unwrap();
    assert_eq!(answer["rows"][0]["op"], "cudaLaunchKernel");
    assert_eq!(answer["rows"][0]["oncpu_pct"], Value::Null);
    assert!(answer["coverage"]["notes"][0].as_str().unwrap().contains("biased sample"));
}

/// The first paint of a dashboard knows what is no fault.
#[test]
fn how_a_program_is_built_is_stored_with_its_finding() {
    let (_folder, reader) = crate::made::trace();
    let mut finding =
        gpuwhy_query::explain(&reader, &gpuwhy_query::ExplainRequest::default()).unwrap().findings.remove(0);
    finding.by_design = Some("launch bound".into());
    gpuwhy_store::write_findings(reader.path(), &[finding]).unwrap();
    let mark =
        |reader: &Reader| crate::made::ask(reader, "timeline", Value::Null).unwrap()["findings"][0].clone();
    assert_eq!(mark(&reader)["by_design"], "launch bound");
    let path = reader.path().to_path_buf();
    drop(reader);
    // A file of the version before has no such column.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("ALTER TABLE findings DROP COLUMN by_design; PRAGMA user_version = 8").unwrap();
    drop(db);
    let older = mark(&Reader::open(&path).unwrap());
    assert_eq!((&older["by_design"], older["title"].is_string()), (&Value::Null, true), "{older}");
}

/// Earlier versions detached a function that was called too often for a while: how long is known from when that was.
#[test]
fn the_share_in_which_detached_functions_were_attached_is_a_number() {
    use crate::made::{SECOND, START, attributed, call, trace_of, window};
    use gpuwhy_model::{Batch, Facts, ProbeState, ProbeStatus};
    let change = |second: u64, target: &str, state: ProbeState| ProbeStatus {
        probe: "cuda".into(),
        target: target.into(),
        file: "/lib/libcudart.so.13".into(),
        state,
        flavour: String::new(),
        since_ns: START + second * SECOND,
        reason: match state {
            ProbeState::Attached => "attached again".into(),
            _ => "process 10 calls it too often for its budget: detached for a while".into(),
        },
    };
    let (sync, malloc) = ("cudaStreamSynchronize", "cudaMalloc");
    let watch_changes = vec![
        change(10, sync, ProbeState::Degraded),
        // Of no class whose calls are ever given up.
        change(20, malloc, ProbeState::Degraded),
        change(30, sync, ProbeState::Attached),
        // It stays so.
        change(95, sync, ProbeState::Degraded),
    ];
    let batch = Batch {
        calls: vec![call(0, 6, 10)],
        windows: vec![window(0, 6, 10, 1_000)],
        watch_changes,
        ..Batch::default()
    };
    let blame = vec![attributed(1, 6, gpuwhy_model::Cause::CpuSelf, (0, ""), 1_000)];
    let (_folder, reader) = trace_of(&batch, &Facts { blame, ..Facts::default() });
    // 25 of 100 seconds without it.
    assert_eq!(reader.coverage(None).unwrap().degraded, ["synchronisations sampled 75% of the time"]);
}
