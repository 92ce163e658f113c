//! SQL of assistants and pages: it only reads, only the trace, and not for ever, whatever is tried.

use crate::made::{options, served, trace_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// All files of a folder, with what is in them; the log's index is shared among readers.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with("-shm"))
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn nothing_is_written_attached_or_read_from_elsewhere() {
    let (folder, path) = trace_of("python");
    let client = served(&path, options());
    let before = files(folder.path());
    let outside = folder.path().join("outside.db").display().to_string();
    let statements = [
        "DELETE FROM calls".to_string(),
        "INSERT INTO ops VALUES (999, 'x', 'cuda', 'other', 0, NULL)".into(),
        "UPDATE calls SET pid = 1 RETURNING pid".into(),
        "DROP TABLE calls".into(),
        "CREATE TABLE x (a)".into(),
        "CREATE TEMP TABLE x AS SELECT 1".into(),
        "CREATE VIRTUAL TABLE x USING fts5(a)".into(),
        "WITH x AS (SELECT 1) DELETE FROM calls".into(),
        "SELECT 1; DELETE FROM calls".into(),
        "EXPLAIN DELETE FROM calls".into(),
        "PRAGMA writable_schema = ON".into(),
        "PRAGMA query_only = OFF".into(),
        "PRAGMA journal_mode = DELETE".into(),
        "PRAGMA temp_store_directory = '/tmp'".into(),
        "PRAGMA wal_checkpoint(TRUNCATE)".into(),
        "PRAGMA database_list".into(),
        "SELECT * FROM pragma_database_list".into(),
        "BEGIN EXCLUSIVE".into(),
        format!("ATTACH '{outside}' AS other"),
        "ATTACH '/etc/passwd' AS other".into(),
        "ATTACH 'file:/etc/passwd?mode=ro' AS other".into(),
        "ATTACH ':memory:' AS other".into(),
        "DETACH main".into(),
        format!("VACUUM INTO '{outside}'"),
        "VACUUM".into(),
        "ANALYZE".into(),
        "REINDEX".into(),
        "SELECT load_extension('/tmp/x.so')".into(),
        "SELECT readfile('/etc/passwd')".into(),
        format!("SELECT writefile('{outside}', 'x')"),
        "SELECT edit('x', 'sh')".into(),
        "SELECT * FROM fsdir('/')".into(),
        "SELECT * FROM sqlite_dbpage".into(),
        "SELECT * FROM csv('/etc/passwd')".into(),
        "SELECT fts3_tokenizer('simple', x'0000000000000000')".into(),
        "SELECT zeroblob(2000000000)".into(),
        "SELECT ?".into(),
        "".into(),
    ];
    for statement in statements {
        let reply = client.post("/api/v1/sql", &json!({"statement": statement}));
        assert_eq!(reply.status, 400, "{statement}: {}", reply.body);
        let message = reply.json();
        assert_eq!(message["kind"], "usage", "{statement}: {message}");
        assert!(!reply.body.contains("root:"), "{statement}");
        let result = client.call("run_sql", &json!({"statement": statement}));
        assert_eq!(result["isError"], true, "{statement}");
        assert_eq!(result["content"][0]["text"], message["error"], "{statement}");
        assert_eq!(files(folder.path()), before, "{statement}");
    }
}

#[test]
fn nothing_runs_beyond_its_limits_whatever_is_asked_for() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let began = Instant::now();
    let reply = client.post("/api/v1/sql", &json!({"statement": ENDLESS, "seconds": 1}));
    assert_eq!((reply.status, reply.json()["kind"].clone()), (504, json!("slow")));
    assert!(began.elapsed() < Duration::from_secs(20));
    // More rows than are allowed are not had by asking for more.
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let answer = client.post("/api/v1/sql", &json!({"statement": rows, "limit": 1u64 << 50})).json();
    assert_eq!(
        (answer["rows"].as_array().unwrap().len(), &answer["truncated"]),
        (10_000, &Value::Bool(true))
    );
}

/// A sort spills to files that have no names; those are bounded, too.
#[test]
fn a_sort_does_not_fill_the_disk() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, zeroblob(1000000) AS b FROM n ORDER BY i DESC";
    let began = Instant::now();
    let reply = client.post("/api/v1/sql", &json!({"statement": endless, "seconds": 30}));
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert!(reply.json()["error"].as_str().unwrap().contains("temporary"), "{}", reply.body);
    assert!(began.elapsed() < Duration::from_secs(29));
}

/// Whoever hangs up is not worked for: others get their turn although as many as may run at once were asked.
#[test]
fn a_question_whose_asker_is_gone_ends() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    for _ in 0..12 {
        let body = json!({"statement": ENDLESS, "seconds": 30}).to_string();
        let request = crate::client::request(&client.authority, "POST", "/api/v1/sql", &[], &body);
        let mut stream = std::net::TcpStream::connect(&client.authority).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(stream);
    }
    let began = Instant::now();
    assert_eq!(client.get("/api/v1/trace").status, 200);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
