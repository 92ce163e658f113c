//! The trace as rows, for another host: who may have it, of what, and how much.

use crate::made::{guarded, options, served, trace_of};
use rusqlite::Connection;

/// A file of another tool.
const INGERO: &str = include_str!("../../../store/tests/trace_file/ingero.sql");

#[test]
fn a_snapshot_is_packed_and_says_how_large_the_trace_is() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let reply = client.get("/api/v1/snapshot");
    assert_eq!((reply.status, reply.header("content-encoding")), (200, Some("gzip")));
    assert_eq!(reply.header("content-type"), Some("application/x-gpuwhy-rows"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let bytes: u64 = reply.header("gpuwhy-trace-bytes").unwrap().parse().unwrap();
    assert!(bytes >= std::fs::metadata(&path).unwrap().len());
    let all = reply.body.len();
    let part = client.get(&format!("/api/v1/snapshot?from_ns={}", u64::MAX));
    assert_eq!(part.status, 200);
    assert!(part.body.len() < all, "{} of {all}", part.body.len());
    for wrong in ["from_ns=yesterday", "from_ns=-1", "to_ns=1"] {
        let reply = client.get(&format!("/api/v1/snapshot?{wrong}"));
        assert_eq!((reply.status, reply.json()["kind"].as_str()), (400, Some("usage")), "{wrong}");
    }
    assert_eq!(client.send("POST", "/api/v1/snapshot", &[], "{}").status, 405);
    assert_eq!(served(&path, guarded()).get("/api/v1/snapshot").status, 401);
}

#[test]
fn a_trace_that_is_being_written_is_sent_all_the_same() {
    let (_folder, path) = trace_of("python");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; DELETE FROM calls;").unwrap();
    let client = served(&path, options());
    let before = client.get("/api/v1/snapshot");
    assert_eq!(before.status, 200);
    writer.execute_batch("COMMIT").unwrap();
    let after = client.get("/api/v1/snapshot");
    assert!(after.body.len() < before.body.len(), "{} of {}", after.body.len(), before.body.len());
}

#[test]
fn what_cannot_be_merged_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch(INGERO).unwrap();
    let refused = served(&path, options()).get("/api/v1/snapshot");
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains("one of Ingero"), "{}", refused.body);
    let none = served(&folder.path().join("none.db"), options()).get("/api/v1/snapshot");
    assert_eq!((none.status, none.json()["kind"].as_str()), (404, Some("nothing")));
}
