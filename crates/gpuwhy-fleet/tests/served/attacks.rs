//! A tenant with a token, and somebody without one, who mean harm: what others have of the server stays theirs.

#![allow(clippy::unwrap_used)]

use crate::server::{A, ALL, B, Server, ask, audited, gauges, now_ns, try_ask};
use gpuwhy_testkit::skip;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

fn sql(server: &Server, sql: &str, seconds: u64) -> (u16, Value) {
    let body = json!({"sql": sql, "seconds": seconds}).to_string();
    let reply = ask(&server.api, "POST", "/api/v1/sql", Some(ALL), "application/json", body.as_bytes());
    (reply.status, reply.json())
}

/// What a process has in memory, in MiB.
fn resident(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn a_statement_that_kills_its_process_is_told_in_a_sentence_and_the_server_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--store-memory", "256M"]);
    let pushed = server.push(A, &gauges("a", "m", now_ns(), &[(0, 0.5), (1, 0.25)]));
    assert_eq!(pushed.status, 200);
    // A type that the driver panics at.
    let (status, answer) = sql(&server, "SELECT '12:00:00'::TIME_NS AS t", 5);
    assert_eq!((status, &answer["kind"]), (400, &json!("usage")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("cast it to VARCHAR"), "{answer}");
    assert_eq!(
        sql(&server, "SELECT '12:00:00'::TIME_NS::VARCHAR AS t", 5).1["rows"],
        json!([{"t": "12:00:00"}])
    );
    // DuckDB counts nothing of a list that it makes at once.
    let (status, answer) = sql(&server, "SELECT len(range(500000000)) AS n", 20);
    assert_eq!((status, &answer["kind"]), (400, &json!("usage")), "{answer}");
    assert!(resident(server.pid(), "VmHWM") < 1_024, "the server itself takes none of it");
    assert_eq!(server.sql("SELECT count(*) AS n FROM events"), [json!({"n": 2})]);
    // What comes in is seen at once, and what was asked leaves nothing behind.
    assert_eq!(server.push(A, &gauges("a", "m", now_ns(), &[(2, 0.5)])).status, 200);
    assert_eq!(server.sql("SELECT count(*) AS n FROM events"), [json!({"n": 3})]);
    assert_eq!(std::fs::read_dir(folder.path().join("data/sql")).unwrap().count(), 0);
}

/// Processes that answer SQL for this server.
fn workers(server: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    children.map(|children| children.split_whitespace().count()).sum()
}

#[test]
fn a_statement_that_heeds_no_interrupt_ends_at_its_time_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let began = Instant::now();
    // One vector, in which DuckDB looks at nothing else.
    let endless = "SELECT list_reduce(range(30000000), lambda x, y: x + y) AS n";
    let (status, answer) = sql(&server, endless, 1);
    assert_eq!((status, &answer["kind"]), (504, &json!("slow")), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(workers(server.pid()), 0);
    assert_eq!(std::fs::read_dir(folder.path().join("data/sql")).unwrap().count(), 0);
    assert_eq!(server.sql("SELECT 7 AS n"), [json!({"n": 7})]);
}

/// What the process may do that runs a statement of a tenant's.
#[test]
fn a_statement_runs_without_privileges() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let asked = std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| sql(&server, "SELECT list_reduce(range(30000000), lambda x, y: x + y) AS n", 3));
        let mut seen = Vec::new();
        while !asking.is_finished() && seen.is_empty() {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
            let children =
                tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
            let workers: Vec<String> = children
                .flat_map(|pids| pids.split_whitespace().map(str::to_string).collect::<Vec<_>>())
                .collect();
            let of_threads = workers.iter().flat_map(|pid| {
                let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
            });
            let of_threads: Vec<String> = of_threads.collect();
            let has =
                |status: &String, line: &str| status.lines().any(|found| found.replace('\t', " ") == line);
            let all = |line: &str| of_threads.iter().all(|status| has(status, line));
            // Threads beside the first are DuckDB's: then it has begun.
            if of_threads.len() > 1
                && all("Seccomp: 2")
                && all("NoNewPrivs: 1")
                && all("CapEff: 0000000000000000")
            {
                seen = of_threads;
            }
        }
        let answer = asking.join().unwrap();
        assert!(!seen.is_empty(), "no worker was seen confined: {answer:?}");
        answer
    });
    assert_eq!(asked.0, 504, "{}", asked.1);
    // Sorting goes to files, threads share the work, and what others have stays out of reach.
    let spilling = "SELECT count(*) AS n FROM (SELECT i, repeat('x', 40) AS t FROM range(3000000) r(i) ORDER BY t, -i) WHERE i >= 0";
    assert_eq!(sql(&server, spilling, 60).1["rows"], json!([{"n": 3_000_000}]));
    let (status, _) = sql(&server, "SELECT * FROM read_text('/etc/passwd')", 5);
    assert_eq!(status, 400);
}

#[test]
fn a_request_costs_what_was_sent_and_not_what_it_claims_to_contain() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let before = resident(server.pid(), "VmHWM");
    // Two million empty spans in a resource, in a scope: four megabytes, and packed four kilobytes.
    let spans = [0x12, 0].repeat(2_000_000);
    let field = |number: u8, inside: &[u8]| {
        let length = inside.len();
        let length: [u8; 4] =
            std::array::from_fn(|at| (length >> (7 * at)) as u8 & 0x7f | if at < 3 { 0x80 } else { 0 });
        [&[number << 3 | 2][..], &length, inside].concat()
    };
    let message = field(1, &field(2, &spans));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&message).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < 10_000);
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "gzip")];
    let reply = try_ask(&server.http, "POST", "/v1/traces", Some(A), &headers, &packed).unwrap();
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("2000000 are malformed"), "{}", reply.text());
    let json = format!(
        "{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{}{{}}]}}]}}]}}",
        "{},".repeat(2_000_000)
    );
    let reply = ask(&server.http, "POST", "/v1/traces", Some(A), "application/json", json.as_bytes());
    assert_eq!(reply.json()["partialSuccess"]["rejectedSpans"], "2000001");
    let took = resident(server.pid(), "VmHWM").saturating_sub(before);
    assert!(took < 120, "it took {took} MiB");
}

#[test]
fn a_tenant_that_makes_up_names_or_lets_bodies_stand_blinds_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let named = |cluster: &str, jobs: std::ops::Range<u32>| {
        let text = |text: String| json!({"stringValue": text});
        let points: Vec<Value> = jobs
            .map(|job| {
                json!({"asDouble": 0.5, "attributes": [{"key": "job_id", "value": text(format!("{cluster}-job-{job}"))},
                    {"key": "rank", "value": {"intValue": "0"}}]})
            })
            .collect();
        let cluster = json!({"attributes": [{"key": "cluster_id", "value": text(cluster.into())}]});
        let gauge = json!({"name": "gpuwhy.rank.health", "gauge": {"dataPoints": points}});
        json!({"resourceMetrics": [{"resource": cluster, "scopeMetrics": [{"metrics": [gauge]}]}]})
    };
    let partial = |reply: crate::server::Reply| {
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json().get("partialSuccess").cloned()
    };
    let flood = [
        partial(server.push(A, &named("a", 0..55_000))),
        partial(server.push(A, &named("a", 55_000..110_000))),
    ];
    assert!(
        flood.iter().flatten().any(|partial| partial.to_string().contains("too many already")),
        "{flood:?}"
    );
    assert_eq!(partial(server.push(B, &named("b", 0..100))), None, "it did nothing of that");
    // Bodies that do not come to their end.
    let address = server.http.trim_start_matches("http://").to_string();
    let standing: Vec<std::net::TcpStream> = (0..16)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            let head = format!(
                "POST /v1/metrics HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {A}\r\ncontent-type: application/json\r\ncontent-length: 16000000\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // The server may refuse it in the middle.
            let _ = stream.write_all(&vec![b' '; 15_000_000]);
            stream
        })
        .collect();
    assert_eq!(partial(server.push(B, &named("b", 0..1_000))), None);
    drop(standing);
}

#[test]
fn whoever_is_refused_very_often_erases_nothing_and_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.tool(A, "nodes", json!({})).status, 200);
    let refused = |at: &str, path: &str| ask(at, "POST", path, None, "application/json", b"{}").status;
    let mut statuses = std::collections::BTreeMap::<u16, u32>::new();
    for _ in 0..300 {
        *statuses.entry(refused(&server.api, "/api/v1/sql")).or_default() += 1;
        *statuses.entry(refused(&server.http, "/v1/metrics")).or_default() += 1;
    }
    // How many of them come too often depends on how fast they come.
    assert!(
        statuses[&401] >= 300 && statuses.keys().all(|status| [401, 429].contains(status)),
        "{statuses:?}"
    );
    assert_eq!(server.tool(A, "nodes", json!({})).status, 200, "who shows a token from there is not held up");
    let log = |name: &str| std::fs::read_to_string(folder.path().join("data").join(name)).unwrap();
    let audited: Vec<usize> = audited(folder.path()).iter().map(|log| log.lines().count()).collect();
    assert_eq!(audited, [2]);
    assert!(log("refused.log").lines().count() <= 60, "{}", log("refused.log").lines().count());
}

#[test]
fn questions_of_one_token_leave_turns_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let slow = json!({"sql": "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b", "seconds": 30});
    let slow = slow.to_string();
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|_| {
                let (slow, api) = (&slow, &server.api);
                scope.spawn(move || {
                    let mut stream = std::net::TcpStream::connect(api.trim_start_matches("http://")).unwrap();
                    let head = format!(
                        "POST /api/v1/sql HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALL}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{slow}",
                        slow.len()
                    );
                    stream.write_all(head.as_bytes()).unwrap();
                    stream
                })
            })
            .collect();
        // They stay connected, and so wait, until the other one has its answer.
        let streams: Vec<_> = asking.into_iter().map(|asking| asking.join().unwrap()).collect();
        std::thread::sleep(Duration::from_millis(500));
        let answered = server.tool(B, "nodes", json!({}));
        assert_eq!(answered.status, 200);
        let mut first = &streams[0];
        first.set_nonblocking(true).unwrap();
        let waits = std::io::Read::read(&mut first, &mut [0; 1]);
        assert!(waits.is_err(), "the slow ones are still being answered: {waits:?}");
    });
}

/// An address of this host that is not loopback: there a peer is its address.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent by it.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn one_address_does_not_have_all_connections_and_who_does_not_read_is_closed() {
    let test = "one_address_does_not_have_all_connections_and_who_does_not_read_is_closed";
    let Some(ip) = own_address() else { return skip(test, "this host has no address but loopback") };
    let folder = tempfile::tempdir().unwrap();
    // As few descriptors as many systems give: 768 for connections, 153 of them for those who ask, 51 for an address.
    let mut server = std::process::Command::new("sh");
    server.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_gpuwhy-fleet")]);
    server.args(["serve", "--insecure-no-tls", "--data"]).arg(folder.path().join("data"));
    server.arg("--tokens").arg(crate::server::tokens(folder.path()));
    for http in ["--otlp-grpc", "--otlp-http", "--api"] {
        server.args([http, "0.0.0.0:0"]);
    }
    let server = Server::started(&mut server);
    let at = |at: &str, ip: &str| format!("http://{ip}:{}", at.rsplit(':').next().unwrap());
    let (near, far) = (at(&server.api, "127.0.0.1"), at(&server.api, &ip.to_string()));
    // Files without end, more than any buffer has room for, and nobody who reads them.
    let request = "GET /shared/style.css HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5_000);
    let began = Instant::now();
    let silent: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(far.trim_start_matches("http://")).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    let asked = try_ask(&near, "GET", "/api/v1/health", Some(B), &[], b"").unwrap();
    assert_eq!(asked.status, 200, "another address is let in");
    // Looked at, and not read: who is let in has something to read, who is not is closed.
    let looks = |stream: &std::net::TcpStream| {
        stream.set_nonblocking(true).unwrap();
        match stream.peek(&mut [0; 1]) {
            Ok(count) => Some(count > 0),
            Err(error) => (error.kind() != std::io::ErrorKind::WouldBlock).then_some(false),
        }
    };
    let until = began + Duration::from_secs(25);
    while silent.iter().any(|stream| looks(stream).is_none()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let served = silent.iter().filter(|stream| looks(stream) != Some(false)).count();
    assert_eq!(served, 51, "an address has its share and no more");
    while Instant::now() < began + Duration::from_secs(75) {
        if try_ask(&far, "GET", "/api/v1/health", Some(B), &[], b"").is_ok_and(|reply| reply.status == 200) {
            drop(silent);
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("who does not read still has the connections");
}

#[test]
fn an_assistant_that_begins_without_end_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let mut answered = 0;
    for _ in 0..150 {
        let reply =
            try_ask(&server.api, "POST", "/mcp", Some(A), &headers, begin.to_string().as_bytes()).unwrap();
        assert!([200, 429].contains(&reply.status), "{}: {}", reply.status, reply.text());
        assert_eq!(reply.header("mcp-session-id"), None, "there are no sessions");
        answered += u32::from(reply.status == 200);
    }
    assert!(answered >= 100, "{answered}");
}
