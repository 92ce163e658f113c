//! Nothing leaves the host that was not asked for: whom the binary connects to, as the kernel sees it.

use crate::support::{Trace, can_trace, gpuwhy, simwork, skip, wait_until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The command under strace, which writes down every address that is connected or sent to.
fn watched(log: &Path, words: &[&str]) -> Command {
    let plain = gpuwhy();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o"]).arg(log);
    command.arg(plain.get_program()).args(words);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Ends what strace runs, and with it strace. The command may end by itself at any moment, for instance where the network is
/// unreachable, so neither a missing list of children nor a process that is gone is a failure.
fn end(strace: &mut Child) {
    let pid = strace.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        let _ = Command::new("kill").args(["-KILL", child]).stderr(Stdio::null()).status();
    }
    strace.wait().unwrap();
}

/// Lines with an address of the Internet's that is not this host's own.
fn abroad(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    let is_abroad = |line: &&str| {
        let is_internet = line.contains("sa_family=AF_INET");
        is_internet && !["\"127.", "\"::1\"", "\"::ffff:127."].iter().any(|own| line.contains(own))
    };
    text.lines().filter(is_abroad).map(str::to_string).collect()
}

#[test]
fn no_command_connects_to_anybody_who_was_not_named() {
    const TEST: &str = "no_command_connects_to_anybody_who_was_not_named";
    if !can_trace(TEST) {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(TEST, "there is no strace");
    }
    let trace = Trace::new();
    let (file, simwork) = (trace.file().display().to_string(), simwork().display().to_string());
    let log = |name: &str| trace.folder.path().join(name);
    let run = |name: &str, words: &[&str]| {
        let output = watched(&log(name), words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(abroad(&log(name)), Vec::<String>::new(), "{name}");
    };
    run("trace", &["trace", "--out", &file, "--", &simwork, "launch", "--launches", "200"]);
    run("explain", &["explain", &file]);
    // A collector on this host, and nobody else.
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in collector.incoming().flatten() {
            let _ = connection.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let other = trace.folder.path().join("pushed.db").display().to_string();
    let otlp = format!("http://{address}");
    run("otlp", &["trace", "--out", &other, "--otlp", &otlp, "--", &simwork, "launch", "--launches", "200"]);
    let pushed = fs::read_to_string(log("otlp")).unwrap();
    assert!(pushed.contains(&format!("htons({})", address.port())), "it pushes to whom was named");

    let mut mcp = watched(&log("mcp"), &["mcp", &file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut asks = mcp.stdin.take().unwrap();
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_sql","arguments":{"sql":"SELECT sum(count) AS n FROM call_stats"}}}"#,
    ] {
        writeln!(asks, "{line}").unwrap();
    }
    let answers = BufReader::new(mcp.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answer = answers.into_iter().find(|line| line.contains(r#""id":2"#)).expect("the tool answers");
    assert!(answer.contains("rows") && !answer.contains(r#""isError":true"#), "{answer}");
    drop(asks);
    mcp.wait().unwrap();
    assert_eq!(abroad(&log("mcp")), Vec::<String>::new());

    let mut dashboard = watched(&log("dashboard"), &["dashboard", &file, "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines: Box<dyn Read> = Box::new(dashboard.stdout.take().unwrap());
    lines = Box::new(lines.chain(dashboard.stderr.take().unwrap()));
    let address = BufReader::new(lines)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("http://")?.1.split(['/', ' ', '#']).next()?.to_string()))
        .expect("the dashboard says where it is");
    let mut page = TcpStream::connect(&address).unwrap();
    write!(page, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    end(&mut dashboard);
    assert_eq!(abroad(&log("dashboard")), Vec::<String>::new());
    // The page itself asks nobody else for scripts, styles or fonts.
    assert!(!answer.contains("src=\"http") && !answer.contains("href=\"http"), "{answer}");
}

/// What the test above would see if there were something to see.
#[test]
fn an_address_that_is_not_loopback_is_seen() {
    const TEST: &str = "an_address_that_is_not_loopback_is_seen";
    if !can_trace(TEST) {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(TEST, "there is no strace");
    }
    let trace = Trace::new();
    let log = trace.folder.path().join("log");
    let words = ["explain", "--nodes", "192.0.2.1:7777"];
    let mut asked = watched(&log, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it connects", || log.exists() && !abroad(&log).is_empty());
    end(&mut asked);
}
