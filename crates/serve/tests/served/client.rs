//! As little of an HTTP client as will do, so that it can say what no browser would.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) authority: String,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Client {
    pub(crate) fn new(address: &str) -> Client {
        Client { authority: address.split_once("://").unwrap().1.into() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    /// A `host` among the headers takes the place of the right one.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let stream = TcpStream::connect(&self.authority).unwrap();
        exchange(stream, &request(&self.authority, method, path, headers, body))
    }

    /// A request over MCP, in a session of its own; the result or the error.
    pub(crate) fn mcp(&self, method: &str, params: &Value, headers: &[(&str, &str)]) -> Value {
        let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let send = |session: Option<&str>, body: &Value| {
            let mut all: Vec<(&str, &str)> = usual.iter().chain(headers).copied().collect();
            all.extend(session.map(|session| ("mcp-session-id", session)));
            let reply = self.send("POST", "/mcp", &all, &body.to_string());
            assert!((200..300).contains(&reply.status), "{reply:?}");
            reply
        };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let hello = send(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
        let session = hello.header("mcp-session-id").map(String::from);
        if method == "initialize" {
            return event(&hello.body, 1);
        }
        send(session.as_deref(), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let reply =
            send(session.as_deref(), &json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params}));
        event(&reply.body, 2)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let reply = self.mcp("tools/call", &json!({"name": tool, "arguments": arguments}), &[]);
        reply.get("result").cloned().unwrap_or_else(|| panic!("{tool}: {reply}"))
    }
}

pub(crate) fn request(
    authority: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let mut text =
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        text += &format!("host: {authority}\r\n");
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text + "\r\n" + body
}

fn exchange(mut stream: TcpStream, request: &str) -> Reply {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    parse(&bytes)
}

pub(crate) fn parse(bytes: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(bytes);
    let end =
        bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no reply: {text}"));
    let (head, body) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 4..]);
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_string()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunked(body) } else { body.into() };
    Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&body[..end]).unwrap().trim();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            break;
        }
        let chunk = &body[end + 2..];
        whole.extend_from_slice(&chunk[..length]);
        body = &chunk[length + 2..];
    }
    whole
}

/// The message with this id, of an event stream or alone.
fn event(body: &str, id: u64) -> Value {
    let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|message| message["id"] == id)
        .unwrap_or_else(|| panic!("no answer in: {body}"))
}
