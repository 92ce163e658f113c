//! `--nodes`: other nodes' dashboards are asked over TLS with tokens, and answers are those of the merged file. Nodes that fail
//! are told, whatever they fail with.

use crate::assistant::served;
use crate::refusal::{refused, sentence};
use crate::support::{Ended, PATIENCE, Running, Trace, alone, can_trace, done, gpuwhy, signal, simwork};
use flate2::Compression;
use flate2::write::GzEncoder;
use rusqlite::Connection;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A node with a trace of its own, its certificate and its token.
struct Node {
    trace: Trace,
    _server: Ended,
    /// As `127.0.0.1:40001`.
    address: String,
    certificate: String,
    token: String,
}

/// A recorded demo as if this host had traced it.
fn recorded(demo: &str, host: &str, start: i64) -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", demo, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    let db = Connection::open(trace.file()).unwrap();
    db.execute("UPDATE sessions SET host = ?, start_ns = start_ns + ?", (host, start)).unwrap();
    trace
}

fn secret(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

impl Node {
    fn new(trace: Trace, token: &str) -> Node {
        let folder = trace.folder.path();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
        let [cert, key, tokens] = ["cert.pem", "key.pem", "tokens"].map(|name| folder.join(name));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        secret(&key, &made.signing_key.serialize_pem());
        secret(&tokens, token);
        let mut command = gpuwhy();
        command.arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--tls-cert"]).arg(&cert);
        command.arg("--tls-key").arg(&key).arg("--token-file").arg(&tokens);
        let (server, address) = served(&mut command);
        let address = address.strip_prefix("https://").unwrap().trim_end_matches('/').to_string();
        Node { trace, _server: server, address, certificate: made.cert.pem(), token: token.into() }
    }
}

/// Nodes, and who may ask all of them.
struct Cluster {
    nodes: Vec<Node>,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new(demos: &[&str]) -> Cluster {
        let node = |(at, demo): (usize, &&str)| {
            let host = format!("node-{at}");
            Node::new(recorded(demo, &host, at as i64), &format!("the-token-of-{host}-0123456789"))
        };
        let nodes: Vec<Node> = demos.iter().enumerate().map(node).collect();
        let folder = tempfile::tempdir().unwrap();
        let lines: String = nodes.iter().map(|node| format!("{} {}\n", node.address, node.token)).collect();
        secret(&folder.path().join("tokens"), &format!("# a line each\n{lines}"));
        let certificates: String = nodes.iter().map(|node| node.certificate.as_str()).collect();
        std::fs::write(folder.path().join("ca.pem"), certificates).unwrap();
        Cluster { nodes, folder }
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// A command that is asked of these nodes.
    fn ask(&self, words: &[&str], nodes: &[String]) -> Command {
        let mut command = gpuwhy();
        command.env_remove("GPUWHY_TOKEN").args(words).args(["--nodes", &nodes.join(",")]);
        command.arg("--token-file").arg(self.folder.path().join("tokens"));
        command.arg("--ca").arg(self.folder.path().join("ca.pem"));
        command
    }

    /// The files of the nodes, merged by hand, under the name that exports of nodes have, too.
    fn merged(&self) -> PathBuf {
        let path = self.folder.path().join("nodes.db");
        let files = self.nodes.iter().map(|node| node.trace.file());
        done(gpuwhy().arg("merge").args(files).arg("-o").arg(&path).output().unwrap());
        path
    }
}

fn json(output: Output) -> Value {
    serde_json::from_str(&done(output)).unwrap()
}

/// Without what is documented to differ.
fn comparable(mut explained: Value) -> Value {
    explained.as_object_mut().unwrap().remove("nodes");
    let file = explained["trace"].as_object_mut().unwrap().remove("file").unwrap();
    // Commands name what was asked.
    let file = file.as_str().unwrap();
    for finding in explained["findings"].as_array_mut().unwrap() {
        for fix in finding["fixes"].as_array_mut().unwrap() {
            let same =
                fix.as_str().unwrap().replace(&format!("--nodes {file}"), "TRACE").replace(file, "TRACE");
            *fix = same.into();
        }
    }
    explained
}

/// Process numbers as their own nodes have them: which ones collide depends on what was fetched.
fn of_their_nodes(value: &mut Value) {
    const STEP: u64 = 10_000_000;
    match value {
        Value::Object(fields) => {
            if let Some(pid) = fields.get("pid").and_then(Value::as_u64) {
                fields.insert("pid".into(), (pid % STEP).into());
            }
            fields.values_mut().for_each(of_their_nodes);
        }
        Value::Array(list) => list.iter_mut().for_each(of_their_nodes),
        Value::String(text) => {
            let number =
                |word: &str| word.parse::<u64>().map_or(word.to_string(), |pid| (pid % STEP).to_string());
            let words = text.split_inclusive(|c: char| !c.is_ascii_digit());
            *text = words
                .map(|word| match word.find(|c: char| !c.is_ascii_digit()) {
                    Some(end) => number(&word[..end]) + &word[end..],
                    None => number(word),
                })
                .collect();
        }
        _ => {}
    }
}

#[test]
fn four_nodes_answer_as_their_merged_file_does() {
    let cluster = Cluster::new(&["cpu-hog", "late-rank", "lock", "cpu-hog"]);
    let (nodes, merged) = (cluster.addresses(), cluster.merged());
    let file = merged.to_str().unwrap();

    // Of the last one, less than all is fetched.
    for words in [
        &["explain", "--json"][..],
        &["explain", "--json", "--per-process"],
        &["explain", "--json", "--since", "5s"],
    ] {
        let fanned = json(cluster.ask(words, &nodes).output().unwrap());
        let by_hand = json(gpuwhy().args(words).arg(file).output().unwrap());
        assert_eq!(fanned["trace"]["nodes"].as_array().unwrap().len(), 4);
        assert!(fanned["findings"].as_array().unwrap().len() >= if words.len() == 4 { 1 } else { 4 });
        let named = format!("`gpuwhy query --nodes {} ", nodes.join(","));
        assert!(words.len() != 2 || fanned["findings"].to_string().contains(&named), "{named}: {fanned}");
        let reported = fanned["nodes"].as_array().unwrap();
        for (at, (reported, node)) in reported.iter().zip(&nodes).enumerate() {
            assert_eq!(
                (&reported["node"], &reported["ok"]),
                (&Value::from(node.as_str()), &Value::from(true))
            );
            assert_eq!(reported["hosts"], serde_json::json!([format!("node-{at}")]));
            assert_eq!(reported["clock"]["shift_ns"], 0, "one clock for all of them: {reported}");
            let error = reported["clock"]["error_ns"].as_i64().unwrap();
            assert!(if at == 0 { error == 0 } else { (1..1_000_000_000).contains(&error) }, "{reported}");
        }
        let (mut fanned, mut by_hand) = (comparable(fanned), comparable(by_hand));
        if words.len() == 4 {
            let events = [&mut fanned, &mut by_hand].map(|answer| answer["trace"]["events"].take().as_u64());
            assert_eq!(events[0], events[1], "those of the time asked about");
            [&mut fanned, &mut by_hand].into_iter().for_each(of_their_nodes);
        }
        assert_eq!(fanned, by_hand, "{words:?}");
    }

    for words in [
        &["query", "SELECT * FROM op_summary"][..],
        &["query", "SELECT node, layer, count(*), sum(duration_ns) FROM events GROUP BY 1, 2"],
        &[
            "query",
            "SELECT op, cause, by_comm, by_pid, sum(ns) FROM blame GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC",
        ],
        &["query", "SELECT * FROM calls"],
        &["query", "SELECT session_id, host, start_ns FROM sessions"],
        &["query", "--limit", "50"],
        &["query", "--op", "cudaStreamSynchronize", "--since", "2s"],
    ] {
        for format in ["csv", "table"] {
            let format = ["--limit", "100000", "--format", format];
            let words: Vec<&str> = words.iter().chain(&format[2..]).copied().collect();
            let fanned = done(cluster.ask(&words, &nodes).output().unwrap());
            let mut by_hand = gpuwhy();
            match words.contains(&"--op") || words.contains(&"--limit") {
                true => by_hand.arg("query").arg(file).args(&words[1..]),
                false => by_hand.args(["query", file, words[1]]).args(&words[2..]),
            };
            assert_eq!(fanned, done(by_hand.output().unwrap()), "{words:?}");
            assert!(fanned.lines().count() > 3, "{words:?}: {fanned}");
        }
    }

    let out = tempfile::tempdir().unwrap();
    for format in ["perfetto", "chrome", "pprof", "speedscope", "folded", "otlp", "parquet"] {
        let [fanned, by_hand] = ["fanned", "by-hand"].map(|name| out.path().join(format!("{name}.{format}")));
        let words = ["export", "--format", format, "-o", fanned.to_str().unwrap()];
        done(cluster.ask(&words, &nodes).output().unwrap());
        done(gpuwhy().args(["export", file, "--format", format, "-o"]).arg(&by_hand).output().unwrap());
        if fanned.is_file() {
            assert_eq!(std::fs::read(&fanned).unwrap(), std::fs::read(&by_hand).unwrap(), "{format}");
            continue;
        }
        let mut tables = 0;
        for entry in std::fs::read_dir(&by_hand).unwrap() {
            let name = entry.unwrap().file_name();
            // Who measured the clocks is told in there.
            if name != "merged.parquet" {
                tables += 1;
                let [a, b] = [&fanned, &by_hand].map(|folder| std::fs::read(folder.join(&name)).unwrap());
                assert!(a == b, "{}", name.display());
            }
        }
        assert!(tables > 30, "{tables}");
    }
}

#[test]
fn a_file_can_be_made_of_nodes_once_and_asked_often() {
    let cluster = Cluster::new(&["cpu-hog", "lock"]);
    let out = cluster.folder.path().join("job.db");
    let mut command = cluster.ask(&["merge", "-o", out.to_str().unwrap()], &cluster.addresses());
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("2 of 2 nodes answered") && message.contains("clocks agree within"),
        "{message}"
    );
    done(output);
    let words = ["SELECT * FROM op_summary", "--format", "csv"];
    let ask = |file: &Path| done(gpuwhy().arg("query").arg(file).args(words).output().unwrap());
    assert_eq!(ask(&out), ask(&cluster.merged()));
    let reported = Connection::open(&out).unwrap();
    let reported: Vec<(String, String)> = reported
        .prepare("SELECT file, clock_source FROM merged ORDER BY 1 = ? DESC, session_id")
        .unwrap()
        .query_map([""], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let nodes = cluster.addresses();
    assert_eq!(reported, [(nodes[0].clone(), "reference".into()), (nodes[1].clone(), "measured".into())]);
}

/// A node as a test wants it to be: answers health, and then this.
fn fake(skew_ns: i64, snapshot: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let snapshot = std::sync::Arc::new(snapshot);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let snapshot = snapshot.clone();
            std::thread::spawn(move || while answer(&stream, skew_ns, &*snapshot).is_some() {});
        }
    });
    format!("http://{address}")
}

/// One request; nothing when the connection is over.
fn answer(stream: &TcpStream, skew_ns: i64, snapshot: &dyn Fn(&mut TcpStream)) -> Option<()> {
    let mut lines = BufReader::with_capacity(1, stream).lines();
    let first = lines.next()?.ok()?;
    lines.by_ref().map_while(Result::ok).find(String::is_empty)?;
    drop(lines);
    let mut stream = stream;
    if first.contains("/api/v1/health") {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64 + skew_ns;
        let body = format!("{{\"ok\": true, \"now_ns\": {now}}}");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).ok()?;
        return Some(());
    }
    snapshot(&mut stream.try_clone().ok()?);
    stream.shutdown(std::net::Shutdown::Both).ok()?;
    None
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1000000000\r\n\r\n";

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_node_that_fails_is_told_and_the_others_answer() {
    let cluster = Cluster::new(&["cpu-hog", "lock", "cpu-hog"]);
    let nodes = cluster.addresses();
    // Nobody listens there.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    // The second's token is wrong, the third's certificate is nobody's.
    let tokens = format!("{} {}\n{} not-the-token-of-that-one\n", nodes[0], cluster.nodes[0].token, nodes[1]);
    secret(&cluster.folder.path().join("tokens"), &tokens);
    let known: String = cluster.nodes[..2].iter().map(|node| node.certificate.as_str()).collect();
    std::fs::write(cluster.folder.path().join("ca.pem"), known).unwrap();

    let begin = |stream: &mut TcpStream, bytes: &[u8]| {
        let _ = stream.write_all(HEAD.as_bytes()).and_then(|()| stream.write_all(bytes));
    };
    let stops = fake(0, |stream| drop(stream.write_all(LONG.as_bytes())));
    let ends = fake(0, move |stream| begin(stream, &packed(&[7; 4000])[..20]));
    let stranger = fake(0, move |stream| begin(stream, &packed(b"<html>this is a page</html>")));
    let unpacked = fake(0, move |stream| begin(stream, b"not packed at all"));
    let huge = fake(0, move |stream| {
        // Ten thousand million bytes of one record, if anybody takes them.
        let _ = stream.write_all(HEAD.as_bytes());
        let mut packed = GzEncoder::new(stream, Compression::fast());
        let _ = packed.write_all(&[&(60u32 << 20).to_le_bytes()[..], b"B"].concat());
        while packed.write_all(&[0; 1 << 16]).is_ok() {}
    });
    let no_http = fake(0, |stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_10.0\r\n")));
    let elsewhere =
        fake(0, |stream| {
            drop(stream.write_all(
                b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
            ));
        });
    let all = [
        (nodes[0].clone(), ""),
        (dead.clone(), "cannot be reached"),
        (nodes[1].clone(), "refuses the token"),
        (nodes[2].clone(), "certificate is not trusted: nobody who is trusted has signed it"),
        (stops, "in the middle of its answer"),
        (ends, "its trace is not whole"),
        (stranger, "no trace"),
        (unpacked, "cannot be unpacked"),
        (huge, "no trace"),
        (no_http, "no HTTP"),
        (elsewhere, "302"),
    ];
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let output = cluster.ask(&["explain", "--json"], &names).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = json(output);
    for ((name, why), reported) in all.iter().zip(answer["nodes"].as_array().unwrap()) {
        assert_eq!(
            (reported["node"].as_str(), reported["ok"].as_bool()),
            (Some(name.as_str()), Some(why.is_empty()))
        );
        if !why.is_empty() {
            assert!(reported["error"].as_str().unwrap().contains(why), "{reported}");
            let line = message
                .lines()
                .find(|line| line.contains(name))
                .unwrap_or_else(|| panic!("{name}: {message}"));
            assert!(line.starts_with(&format!("gpuwhy: {name}: ")) && line.contains(why), "{line}");
        }
    }
    assert_eq!(message.lines().count(), all.len() - 1, "{message}");
    assert_eq!(answer["coverage"]["missing"].as_array().unwrap().len(), all.len() - 1);
    // What the one that answers says is all there.
    let alone =
        json(gpuwhy().args(["explain", "--json"]).arg(cluster.nodes[0].trace.file()).output().unwrap());
    assert_eq!(answer["findings"], alone["findings"]);
    assert_eq!(answer["tail"], alone["tail"]);

    let rows = json(cluster.ask(&["query", "SELECT 1 AS one", "--json"], &names[..3]).output().unwrap());
    assert_eq!((&rows["rows"][0]["one"], &rows["nodes"][1]["ok"]), (&Value::from(1), &Value::from(false)));

    // None at all is no answer.
    let output = cluster.ask(&["query", "SELECT 1"], &names[1..3]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{message}");
    assert!(message.ends_with("none of 2 nodes answered, so there is nothing to answer from\n"), "{message}");
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn a_trace_that_is_too_large_is_not_fetched() {
    let cluster = Cluster::new(&["cpu-hog", "lock"]);
    let output =
        cluster.ask(&["query", "SELECT 1", "--max-transfer", "100K"], &cluster.addresses()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("its trace is larger than") && message.contains("--max-transfer"), "{message}");
}

/// A dashboard on loopback, without TLS, whose clock is wrong.
fn skewed(trace: &Trace, skew_ns: i64) -> (Ended, String) {
    let (server, real) =
        served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]));
    let real = real.strip_prefix("http://").unwrap().trim_end_matches('/').to_string();
    let address = fake(skew_ns, move |stream| {
        let mut to = TcpStream::connect(&real).unwrap();
        let request = format!("GET /api/v1/snapshot HTTP/1.1\r\nhost: {real}\r\nconnection: close\r\n\r\n");
        to.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        to.read_to_end(&mut answer).unwrap();
        stream.write_all(&answer).unwrap();
    });
    (server, address)
}

#[test]
fn a_clock_that_is_wrong_is_measured_and_corrected() {
    const AHEAD: i64 = 1_500_000_000;
    let (a, b) = (recorded("cpu-hog", "node-a", 0), recorded("lock", "node-b", 1));
    let ((_a, first), (_b, second)) = (skewed(&a, 0), skewed(&b, AHEAD));
    let ask = |words: &[&str]| {
        gpuwhy().args(words).args(["--nodes", &format!("{first},{second}")]).output().unwrap()
    };
    let words = ["query", "SELECT node, min(timestamp_ns) AS first FROM events GROUP BY 1 ORDER BY 1"];
    let answer = json(ask(&[&words[..], &["--json"]].concat()));
    let clock = &answer["nodes"][1]["clock"];
    let (shift, error) = (clock["shift_ns"].as_i64().unwrap(), clock["error_ns"].as_i64().unwrap());
    assert_eq!(clock["source"], "measured");
    assert!((shift + AHEAD).abs() <= error && error < AHEAD / 10, "{clock}");
    assert_eq!(answer["nodes"][0]["clock"]["source"], "reference");
    let firsts: Vec<i64> = [0, 1].iter().map(|at| answer["rows"][*at]["first"].as_i64().unwrap()).collect();
    let of = |trace: &Trace| trace.number("SELECT min(timestamp_ns) FROM events");
    assert_eq!(firsts, [of(&a), of(&b) + shift]);
    let output = ask(&words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains(&format!("{second}: its clock is 1.5")) && message.contains("were corrected"),
        "{message}"
    );
}

#[test]
fn collectives_tell_better_than_a_clock_that_is_asked() {
    let (a, b) = (recorded("late-rank", "node-a", 0), recorded("late-rank", "node-b", 1));
    let ((_a, first), (_b, second)) = (skewed(&a, 0), skewed(&b, 3_600_000_000_000));
    let answer =
        done(gpuwhy().args(["explain", "--json", "--nodes", &format!("{first},{second}")]).output().unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let clock = &answer["nodes"][1]["clock"];
    assert_eq!(
        (&clock["source"], &clock["shift_ns"]),
        (&Value::from("collectives"), &Value::from(0)),
        "{clock}"
    );
}

#[test]
fn of_a_long_trace_only_the_part_that_is_asked_about_is_fetched() {
    let trace = recorded("cpu-hog", "node-a", 0);
    let before =
        json(gpuwhy().args(["explain", "--json", "--since", "1m"]).arg(trace.file()).output().unwrap());
    let sql = |table: &str, time: &str| {
        format!(
            "CREATE TEMP TABLE old AS SELECT * FROM {table}; UPDATE old SET {time} = {time} - 3600000000000;
             INSERT INTO {table} SELECT * FROM old; DROP TABLE old;"
        )
    };
    let hour_ago = sql("calls", "timestamp_ns")
        + &sql("call_stats", "window_start_ns")
        + &sql("blame", "window_start_ns");
    Connection::open(trace.file()).unwrap().execute_batch(&hour_ago).unwrap();
    let (_server, address) =
        served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]));
    let ask =
        |words: &[&str]| json(gpuwhy().args(words).args(["--json", "--nodes", &address]).output().unwrap());
    let (part, whole) = (ask(&["explain", "--since", "1m"]), ask(&["explain"]));
    let rows = |answer: &Value| answer["nodes"][0]["rows"].as_u64().unwrap();
    let calls = trace.number("SELECT count(*) FROM calls") as u64;
    assert!(rows(&part) + calls / 2 <= rows(&whole), "{} of {}", rows(&part), rows(&whole));
    assert_eq!(part["findings"], before["findings"]);
    assert!(whole["trace"]["events"].as_u64() > part["trace"]["events"].as_u64());
}

#[test]
fn a_trace_that_is_being_written_is_asked_as_it_is() {
    if !can_trace("a_trace_that_is_being_written_is_asked_as_it_is") {
        return;
    }
    let _turn = alone();
    let (trace, other) = (Trace::new(), recorded("cpu-hog", "other", 0));
    let mut running = Running::start(&trace, &[]);
    let mut work = Command::new(simwork());
    let work = Ended(
        work.args(["launch", "--launches", "0", "--via", "driver", "--gap-us", "50"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    running.until_called(work.0.id().into(), "cuLaunchKernel", 1000);
    let dashboards = [&trace, &other].map(|trace| {
        served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]))
    });
    let nodes = dashboards.each_ref().map(|(_, address)| address.as_str()).join(",");
    let sql = "SELECT count(DISTINCT session_id), sum(count) FROM call_stats WHERE op = 'cuLaunchKernel'";
    let asked = || {
        let output = gpuwhy().args(["query", sql, "--format", "csv", "--nodes", &nodes]).output().unwrap();
        let message = done(output);
        let line = message.lines().nth(1).unwrap().to_string();
        let (sessions, calls) = line.split_once(',').unwrap();
        assert_eq!(sessions, "2", "{message}");
        calls.trim().parse::<u64>().unwrap()
    };
    let (first, recorded) = (asked(), other.count_of("cuLaunchKernel") as u64);
    assert!(first >= 1000 + recorded, "{first}");
    running.until_called(work.0.id().into(), "cuLaunchKernel", first - recorded + 1000);
    // What was counted is written within a second.
    let began = Instant::now();
    while asked() <= first {
        assert!(began.elapsed() < PATIENCE, "no more than {first} calls");
    }
    drop(work);
    running.stop();
}

/// A node that says nothing more: Ctrl-C is not kept waiting, and nothing is left behind.
#[test]
fn whoever_waits_for_a_node_can_stop() {
    let (asked, waiting) = std::sync::mpsc::channel();
    let silent = fake(0, move |stream| {
        let _ = stream.write_all(HEAD.as_bytes());
        let _ = asked.send(());
        // Until the other side is gone.
        let _ = stream.read(&mut [0]);
    });
    let folder = tempfile::tempdir().unwrap();
    let mut command = gpuwhy();
    command.args(["explain", "--nodes", &silent]).env("TMPDIR", folder.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    waiting.recv_timeout(PATIENCE).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    sentence(&output, 1, &["it was interrupted"], "explain");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What a node that means harm may send in rows that look right.
#[test]
fn absurd_numbers_of_a_node_break_nothing() {
    for absurd in [i64::MAX, i64::MIN, -1] {
        let (good, bad) = (recorded("cpu-hog", "good", 0), recorded("late-rank", "bad", 1));
        let sets = ["calls", "call_stats", "blame", "nccl_events", "processes", "sched_events", "gpu_time"]
            .map(|table| {
                let numbers = bad.text(&format!(
                    "SELECT group_concat(name || ' = {absurd}') FROM pragma_table_info('{table}') \
                 WHERE type = 'INTEGER' AND pk = 0 AND name NOT IN ('op_id', 'session_id')"
                ));
                format!("UPDATE OR IGNORE {table} SET {numbers};")
            });
        Connection::open(bad.file()).unwrap().execute_batch(&sets.concat()).unwrap();
        let dashboards = [&good, &bad].map(|trace| {
            served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]))
        });
        let nodes = dashboards.each_ref().map(|(_, address)| address.as_str()).join(",");
        for words in
            [&["explain"][..], &["query", "--limit", "5"], &["export", "--format", "chrome", "-o", "-"]]
        {
            let output = gpuwhy().args(words).args(["--nodes", &nodes]).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => assert!(message.contains("2 of 2 nodes answered"), "{message}"),
                status => drop(sentence(&output, status.unwrap(), &[], &format!("{absurd} {words:?}"))),
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let trace = Trace::new();
    let file = trace.file();
    let nodes = ["--nodes", "127.0.0.1:9"];
    refused(gpuwhy().args(["explain", "some.db"]).args(nodes), 2, &["instead of a file"]);
    refused(gpuwhy().args(["query", "some.db", "SELECT 1"]).args(nodes), 2, &["instead of a file"]);
    refused(gpuwhy().args(["query", "./some.db"]).args(nodes), 2, &["instead of a file"]);
    let export = ["export", "some.db", "--format", "folded", "-o", "-"];
    refused(gpuwhy().args(export).args(nodes), 2, &["instead of a file"]);
    refused(gpuwhy().args(["explain", "--nodes", "http://10.0.0.1:7777"]), 2, &["over TLS"]);
    refused(gpuwhy().args(["explain", "--nodes", "https://me:secret@node"]), 2, &["--token-file"]);
    refused(gpuwhy().args(["explain", "--nodes", "a,b,a"]), 2, &["a is named twice"]);
    refused(gpuwhy().args(["explain", "--ca", "x"]), 2, &["--nodes"]);
    std::fs::write(&file, "a-token-of-16-characters").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = ["explain", "--token-file", file.to_str().unwrap()];
    refused(gpuwhy().args(open).args(nodes), 1, &["can be read or written by everybody"]);
    refused(gpuwhy().arg("explain").args(nodes), 1, &["127.0.0.1:9: it cannot be reached"]);
    refused(gpuwhy().args(["explain", "--ca", "/none"]).args(nodes), 1, &["--ca cannot be used: /none"]);
}
