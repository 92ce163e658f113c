//! On a shared host: whoever has no token sees nothing, and whoever takes all he can get leaves something for others.

use crate::client::{Client, request};
use crate::made::{options, served, served_at, trace_of};
use gpuwhy_serve::HttpOptions;
use gpuwhy_testkit::{Ended, skip};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_server_on_loopback_wants_the_token_it_was_started_with() {
    let (_folder, path) = trace_of("python");
    let closed = || HttpOptions { open: false, ..options() };
    let at = served_at(&path, closed());
    let (client, token) = (Client::new(&at.address), at.token.unwrap());
    assert!(token.len() >= 32 && token.chars().all(|c| c.is_ascii_hexdigit()), "{token}");
    let other = served_at(&path, closed());
    assert_ne!(other.token.as_ref(), Some(&token), "one a run");
    for path in ["/api/v1/trace", "/api/v1/snapshot", "/mcp", "/api/v1"] {
        assert_eq!(client.get(path).status, 401, "{path}");
    }
    assert!(client.get("/").body.contains("action=\"/login\""));
    let bearer = format!("Bearer {token}");
    assert_eq!(client.send("GET", "/api/v1/trace", &[("authorization", &bearer)], "").status, 200);
    let tools = client.mcp("tools/list", &json!({}), &[("authorization", &bearer)]);
    assert!(tools["result"]["tools"].is_array());
    // Cookies know no ports: two servers of one host do not take each other's.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let cookie = |client: &Client, token: &str| {
        let entered = client.send("POST", "/login", &form, &format!("token={token}"));
        entered.header("set-cookie").unwrap().split(';').next().unwrap().to_string()
    };
    let second = Client::new(&other.address);
    let both = format!("{}; {}", cookie(&client, &token), cookie(&second, &other.token.unwrap()));
    for client in [client, second] {
        assert_eq!(client.send("GET", "/api/v1/trace", &[("cookie", &both)], "").status, 200);
    }
    assert_eq!(served_at(&path, options()).token, None, "but where it is open by name");
}

/// Another user's connections, each of which asks for much and reads nothing.
const READS_NOTHING: &str = r#"
trap '' PIPE
ask=$(printf 'GET /node/views/overview.js HTTP/1.1\r\nhost: localhost\r\n\r\n.' | sed 's/\.$//'; echo .)
ask=${ask%.}
for i in 1 2 3 4 5 6 7 8 9; do ask="$ask$ask"; done
for i in $(seq 300); do
  { exec {fd}<>/dev/tcp/127.0.0.1/$1 && printf '%s' "$ask" >&$fd; } 2>/dev/null
done
echo ready
exec sleep 600
"#;

#[test]
fn readers_that_do_not_read_leave_connections_for_other_users() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let port = client.authority.rsplit(':').next().unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", READS_NOTHING, "bash"])
        .arg(port)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        return skip("readers_that_do_not_read_leave_connections_for_other_users", "there is no setpriv");
    };
    let mut attack = Ended(child);
    let mut line = String::new();
    BufReader::new(attack.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.trim() != "ready" {
        return skip(
            "readers_that_do_not_read_leave_connections_for_other_users",
            "only root can become another user",
        );
    }
    let mut stream = TcpStream::connect(&client.authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    stream.write_all(request(&client.authority, "GET", "/api/v1/health", &[], "").as_bytes()).unwrap();
    let mut reply = String::new();
    stream
        .read_to_string(&mut reply)
        .expect("an answer, although somebody holds all the connections he gets");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[test]
fn sessions_of_assistants_are_bounded() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let begin = || {
        let reply = client.send("POST", "/mcp", &usual, &hello.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.header("mcp-session-id").unwrap().to_string()
    };
    let ping = |session: &str| {
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let headers = [usual[0], usual[1], ("mcp-session-id", session)];
        client.send("POST", "/mcp", &headers, &ready).status
    };
    let sessions: Vec<String> = (0..200).map(|_| begin()).collect();
    let living = sessions.iter().filter(|session| ping(session) != 404).count();
    assert_eq!(living, 64);
    assert_eq!(ping(&sessions[199]), 202, "the newest live");
}
