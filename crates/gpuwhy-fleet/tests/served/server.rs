//! A server of its own for each test, and plain requests to it.

// Helpers of tests are as good as tests.
#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_pass_by_value)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const ALL: &str = "token-of-everything-0123456789";
pub(crate) const A: &str = "token-of-cluster-a-0123456789";
pub(crate) const B: &str = "token-of-cluster-b-0123456789";
pub(crate) const PUSH_A: &str = "token-that-only-pushes-0123456789";
const TOKENS: &str = "# ours\n\
    token-of-everything-0123456789 * push,read,sql,admin\n\
    token-of-cluster-a-0123456789 a push,read,sql\n\
    token-of-cluster-b-0123456789 b push,read\n\
    token-that-only-pushes-0123456789 a push\n";

pub(crate) struct Server {
    child: Child,
    pub(crate) grpc: String,
    pub(crate) http: String,
    pub(crate) api: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn tokens(folder: &Path) -> PathBuf {
    let file = folder.join("tokens");
    std::fs::write(&file, TOKENS).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuwhy-fleet"));
    command.args(["serve", "--data"]).arg(folder.join("data")).arg("--tokens").arg(tokens(folder));
    for address in ["--otlp-grpc", "--otlp-http", "--api"] {
        command.args([address, "127.0.0.1:0"]);
    }
    command
}

impl Server {
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Server {
        Server::started(command(folder).args(more).arg("--insecure-no-tls"))
    }

    pub(crate) fn started(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let found: Vec<String> = line
            .split_whitespace()
            .filter(|word| word.starts_with("http"))
            .map(|word| word.trim_end_matches(';').to_string())
            .collect();
        let [grpc, http, api] = &found[..] else { panic!("it said: {line}") };
        Server { child, grpc: grpc.clone(), http: http.clone(), api: api.clone() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As kill -9 does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn interrupt(mut self) -> bool {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap().success()
    }

    pub(crate) fn tool(&self, token: &str, name: &str, request: Value) -> Reply {
        let path = format!("/api/v1/tools/fleet.cluster.{name}");
        ask(&self.api, "POST", &path, Some(token), "application/json", request.to_string().as_bytes())
    }

    pub(crate) fn sql(&self, sql: &str) -> Vec<Value> {
        let body = json!({"sql": sql}).to_string();
        let reply = ask(&self.api, "POST", "/api/v1/sql", Some(ALL), "application/json", body.as_bytes());
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        reply.json()["rows"].as_array().unwrap().clone()
    }

    pub(crate) fn get(&self, token: Option<&str>, path: &str) -> Reply {
        ask(&self.api, "GET", path, token, "application/json", b"")
    }

    /// A push of JSON metrics.
    pub(crate) fn push(&self, token: &str, request: &Value) -> Reply {
        ask(
            &self.http,
            "POST",
            "/v1/metrics",
            Some(token),
            "application/json",
            request.to_string().as_bytes(),
        )
    }
}

/// What the server wrote down of each token.
pub(crate) fn audited(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("data/audit")).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_string())
    }
}

pub(crate) fn ask(at: &str, method: &str, path: &str, token: Option<&str>, kind: &str, body: &[u8]) -> Reply {
    try_ask(at, method, path, token, &[("content-type", kind)], body).unwrap()
}

pub(crate) fn try_ask(
    at: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Reply> {
    let address = at.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    head += &format!("content-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(token) = token {
        head += &format!("authorization: Bearer {token}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole)?;
    let end = whole.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other("the answer broke off"))?;
    let head = String::from_utf8_lossy(&whole[..end]).into_owned();
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok(Reply { status, head, body: whole[end + 4..].to_vec() })
}

pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Gauges of one cluster: (rank, value), all of one time.
pub(crate) fn gauges(cluster: &str, name: &str, time_ns: u64, values: &[(u32, f64)]) -> Value {
    let text = |text: &str| json!({"stringValue": text});
    let points: Vec<Value> = values
        .iter()
        .map(|(rank, value)| {
            json!({
                "timeUnixNano": time_ns.to_string(), "asDouble": value,
                "attributes": [{"key": "rank", "value": {"intValue": rank.to_string()}}, {"key": "nranks", "value": {"intValue": "8"}}],
            })
        })
        .collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": [
            {"key": "cluster_id", "value": text(cluster)}, {"key": "node_id", "value": text(&format!("{cluster}-node"))},
            {"key": "job_id", "value": text(&format!("job-of-{cluster}"))},
        ]},
        "scopeMetrics": [{"metrics": [{"name": name, "gauge": {"dataPoints": points}}]}],
    }]})
}
