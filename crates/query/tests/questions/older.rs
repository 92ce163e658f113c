//! A file of an earlier version answers what it can, and says of the rest that it has nothing.

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
    let reader = Reader::open(&path).unwrap();
    for endpoint in ENDPOINTS {
        let request = if endpoint.name == "sql" { json!({"statement": "SELECT 1"}) } else { Value::Null };
        let answered = (endpoint.run)(&reader, request);
        let expected = ["sql", "processes", "coverage", "trace"].contains(&endpoint.name);
        match answered {
            Ok(_) => assert!(expected, "{}", endpoint.name),
            Err(error) => {
                assert_eq!((expected, error.exit_status()), (false, 3), "{}: {error}", endpoint.name);
            }
        }
    }
}
