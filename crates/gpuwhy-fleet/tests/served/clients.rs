//! Other people's clients: OpenTelemetry's exporters push, the official MCP client asks, DuckDB opens the store.

#![allow(clippy::unwrap_used)]

use crate::server::{A, ALL, Server, command};
use gpuwhy_testkit::{skip, unavailable};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Python with all of them, made once; None, and a skip, where it cannot be had.
fn python(test: &str) -> Option<PathBuf> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = PYTHON.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fleet-clients.sh");
        let output = Command::new(script).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        }
    });
    match made {
        Ok(python) => Some(python.clone()),
        Err(reason) => {
            unavailable(test, reason);
            None
        }
    }
}

fn run(python: &Path, script: &str, arguments: &[&str]) -> String {
    // Whom to trust is said by the test, not by the machine.
    let trusted =
        arguments.last().filter(|last| last.ends_with("cert.pem")).map(|cert| ("REQUESTS_CA_BUNDLE", *cert));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/served").join(script);
    let output = Command::new(python).arg(file).args(arguments).envs(trusted).output().unwrap();
    let (message, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}{wrong}");
    message.into_owned()
}

/// For localhost: the certificate's file and its key's; None where openssl cannot make them. `more` is for openssl.
pub(crate) fn certificate(folder: &Path, more: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1";
    let made = Command::new("openssl")
        .args(words.split(' '))
        .args(more)
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    made.is_ok_and(|made| made.status.success()).then_some((cert, key))
}

#[test]
fn the_official_exporters_push_with_and_without_tls() {
    let test = "the_official_exporters_push_with_and_without_tls";
    let Some(python) = python(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let message = run(&python, "exporters.py", &[&server.grpc, &server.http, A, ""]);
    let rows = server.sql(
        "SELECT metric_name, kind, count(*) AS n FROM events WHERE cluster_id = 'a' GROUP BY ALL ORDER BY ALL",
    );
    let found: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row["metric_name"], row["kind"], row["n"])).collect();
    for wanted in [
        "\"exporter.counter\" \"sum\"",
        "\"exporter.gauge\" \"gauge\"",
        "\"exporter.histogram\" \"histogram\"",
        "\"a span\" \"span\"",
        "\"log\" \"log\"",
    ] {
        assert!(found.iter().any(|row| row.starts_with(wanted)), "{wanted}: {found:?}\n{message}");
    }
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    let Some((cert, key)) = certificate(folder.path(), &[]) else {
        return skip(test, "openssl makes no certificate");
    };
    let mut command = command(folder.path());
    command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    let server = Server::started(&mut command);
    run(&python, "exporters.py", &[&server.grpc, &server.http, A, &cert.display().to_string()]);
}

#[test]
fn the_official_mcp_client_finds_the_straggler() {
    let test = "the_official_mcp_client_finds_the_straggler";
    let Some(python) = python(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for _ in 0..3 {
        let values: Vec<(u32, f64)> = (0..8).map(|rank| (rank, if rank == 5 { 0.2 } else { 0.95 })).collect();
        let request = crate::server::gauges("a", "gpuwhy.rank.health", crate::server::now_ns(), &values);
        assert_eq!(server.push(A, &request).status, 200);
    }
    let message = run(&python, "assistant.py", &[&server.api, A, ALL]);
    assert!(message.contains("rank 5 on a-node"), "{message}");
}

#[test]
fn duckdb_opens_a_copy_and_the_documented_queries_run() {
    let test = "duckdb_opens_a_copy_and_the_documented_queries_run";
    let Some(python) = python(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let request = crate::server::gauges(
        "a",
        "gpuwhy.rank.own_seconds",
        crate::server::now_ns(),
        &[(0, 0.5), (1, 0.25)],
    );
    assert_eq!(server.push(A, &request).status, 200);
    // A question waits until the store has what was taken before it.
    assert_eq!(server.sql("SELECT count(*) AS count FROM events")[0]["count"], 2);
    // Killed: what is only in the log beside the file must be read, too.
    server.kill();
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for name in ["fleet.duckdb", "fleet.duckdb.wal"] {
        let from = folder.path().join("data").join(name);
        if from.exists() {
            std::fs::copy(from, copy.join(name)).unwrap();
        }
    }
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let file = copy.join("fleet.duckdb");
    let message = run(&python, "queries.py", &[&file.display().to_string(), &guide.display().to_string()]);
    assert!(message.contains("2 events"), "{message}");
}
