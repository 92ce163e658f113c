//! Statements and files that are made to take all memory or all time: each is refused in a sentence, and nothing else suffers.

use crate::assistant::served;
use crate::refusal::{changed_by, recorded_trace, refused};
use crate::support::{Ended, Trace, done, gpuwhy};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Many large values in one row: the limit of an answer is looked at when there is a row.
fn wide() -> String {
    format!("SELECT {}", ["zeroblob(16000000)"; 150].join(", "))
}

/// One call of one function, in which nobody looks at the time.
const LONG: &str = "SELECT instr(zeroblob(16000000), CAST(zeroblob(8000000) || x'01' AS BLOB))";

const MEMORY: &str = "that SQL needs more than 256 MiB of memory and was stopped";
const TIME: &str = "that SQL ran longer than 1s and was stopped";

/// The most memory that a process has had, in bytes.
fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Over HTTP: the status and the answer.
fn asked(address: &str, question: &Value) -> (u16, Value) {
    asked_with(address, "", question)
}

fn asked_with(address: &str, header: &str, question: &Value) -> (u16, Value) {
    let authority = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = question.to_string();
    write!(
        stream,
        "POST /api/v1/sql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// What an assistant is told by `run_sql`, and the most memory its server has had.
fn reported(trace: &Trace, question: &Value) -> (String, u64) {
    let mut child =
        gpuwhy().arg("mcp").arg(trace.file()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = json!({"name": "run_sql", "arguments": question});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer = answers
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .find(|message| message["id"] == 2)
        .unwrap();
    let memory = most_memory(child.id());
    drop(input);
    child.wait().unwrap();
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    (result["content"][0]["text"].as_str().unwrap().to_string(), memory)
}

fn dashboard(trace: &Trace) -> (Ended, String) {
    served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]))
}

/// Others use the same host.
#[test]
fn servers_on_loopback_print_a_token_and_want_it() {
    let trace = recorded_trace();
    let question = json!({"statement": "SELECT 1 AS one"});
    let answered = |address: &str, token: &str| {
        assert!(token.len() >= 32, "{token}");
        assert_eq!(asked(address, &question).0, 401);
        let header = format!("authorization: Bearer {token}\r\n");
        assert_eq!(asked_with(address, &header, &question).1["rows"], json!([{"one": 1}]));
    };
    let mut dashboard = gpuwhy();
    let (_server, link) =
        served(dashboard.arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0"]));
    let (address, token) = link.split_once("/#token=").unwrap();
    answered(address, token);
    let mut mcp = gpuwhy();
    let mut child = Ended(
        mcp.arg("mcp")
            .arg(trace.file())
            .args(["--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (head, token) = line.split_once("; clients send Authorization: Bearer ").unwrap();
    let address = head.trim_start_matches("MCP at ").trim_end_matches("/mcp");
    answered(address, token.split(';').next().unwrap());
}

#[test]
fn a_row_of_large_values_takes_no_more_than_its_memory() {
    let trace = recorded_trace();
    // In 2 GiB of address space: without a limit of its own the statement ends the program.
    let mut limited = Command::new("bash");
    limited
        .args(["-c", "ulimit -v 2097152; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_gpuwhy"), "query"])
        .arg(trace.file())
        .arg(wide());
    refused(&mut limited, 1, &[MEMORY]);
    let (server, address) = dashboard(&trace);
    let (status, answer) = asked(&address, &json!({"statement": wide()}));
    assert_eq!((status, &answer["kind"]), (400, &json!("usage")), "{answer}");
    assert!(answer["error"].as_str().unwrap().starts_with(MEMORY), "{answer}");
    assert!(most_memory(server.0.id()) < 400 << 20, "{} bytes", most_memory(server.0.id()));
    let (text, memory) = reported(&trace, &json!({"statement": wide()}));
    assert!(text.starts_with(MEMORY), "{text}");
    assert!(memory < 400 << 20, "{memory} bytes");
}

#[test]
fn a_function_that_runs_for_minutes_is_ended_in_time() {
    let trace = recorded_trace();
    let (_server, address) = dashboard(&trace);
    let question = json!({"statement": LONG, "seconds": 1});
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut query = gpuwhy();
            refused(query.arg("query").arg(trace.file()).args([LONG, "--timeout", "1s"]), 1, &[TIME]);
        });
        scope.spawn(|| {
            let (status, answer) = asked(&address, &question);
            assert_eq!((status, &answer["kind"]), (504, &json!("slow")), "{answer}");
            assert!(answer["error"].as_str().unwrap().starts_with(TIME), "{answer}");
        });
        scope.spawn(|| {
            let (text, _) = reported(&trace, &question);
            assert!(text.starts_with(TIME), "{text}");
        });
    });
    // And its turn is free again.
    assert_eq!(asked(&address, &json!({"statement": "SELECT 1 AS one"})).1["rows"], json!([{"one": 1}]));
}

/// A file is made by somebody else as well: views of its own must not run when we ask.
#[test]
fn views_of_a_hostile_file_do_not_run() {
    let trace = recorded_trace();
    let views: Vec<String> = {
        let db = trace.db();
        let mut names = db.prepare("SELECT name FROM sqlite_master WHERE type = 'view'").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert!(views.len() > 3, "{views:?}");
    let hostile: String = views
        .iter()
        .map(|view| {
            let columns: Vec<String> = {
                let db = trace.db();
                let mut names = db.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
                names.query_map([view], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
            };
            let columns: Vec<String> = columns.iter().map(|name| format!("({LONG}) AS {name}")).collect();
            format!("DROP VIEW {view}; CREATE VIEW {view} AS SELECT {};", columns.join(", "))
        })
        .collect();
    let hostile = changed_by(&hostile);
    let answer = |trace: &Trace, words: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("20").arg(env!("CARGO_BIN_EXE_gpuwhy")).arg(words[0]).arg(trace.file()).args(&words[1..]);
        let text = done(command.output().unwrap());
        text.replace(&trace.file().display().to_string(), "FILE")
    };
    for words in [
        &["explain", "--json"][..],
        &["query", "--limit", "50", "--json"],
        &["query", "SELECT op, count FROM op_summary", "--json"],
    ] {
        assert_eq!(answer(&hostile, words), answer(&trace, words), "{words:?}");
    }
}

#[test]
fn tables_of_a_hostile_file_that_compute_are_refused() {
    for (sql, words) in [
        (
            format!("ALTER TABLE calls ADD COLUMN more AS ({}) VIRTUAL", &LONG[7..]),
            "its column calls.more is computed",
        ),
        ("CREATE VIRTUAL TABLE more USING fts5(a)".into(), "its table more is a virtual one"),
    ] {
        let hostile = changed_by(&sql);
        refused(gpuwhy().arg("explain").arg(hostile.file()), 1, &[words]);
        refused(gpuwhy().arg("query").arg(hostile.file()).arg("SELECT 1"), 1, &[words]);
    }
}
