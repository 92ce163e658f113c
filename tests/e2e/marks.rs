//! What programs and servers say of themselves: steps over the socket, by the Python module and by the command line, and
//! the metrics of inference servers; who may speak, and what is refused.

use crate::refusal::{Unprivileged, open_to_all, refused};
use crate::support::{Running, Trace, alone, can_trace, done, gpuwhy, sim, truth};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A socket that other users can reach.
fn socket(trace: &Trace) -> PathBuf {
    open_to_all(trace.folder.path(), 0o755);
    trace.folder.path().join("annotate.sock")
}

fn annotate(socket: &Path, words: &[&str]) -> Command {
    let mut command = gpuwhy();
    command.arg("annotate").args(words).arg("--socket").arg(socket);
    command
}

fn explained(trace: &Trace) -> Value {
    serde_json::from_str(&done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap()))
        .unwrap()
}

/// Runs `gpuwhy trace [flags] -- python3 script words` with the module at hand; the truth it printed.
fn python(trace: &Trace, flags: &[&str], script: &str, words: &[&str]) -> Value {
    let output = gpuwhy()
        .args(["trace", "--out"])
        .arg(trace.file())
        .args(flags)
        .args(["--", "python3"])
        .arg(Path::new(ROOT).join(script))
        .args(words)
        .env("PYTHONPATH", Path::new(ROOT).join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LD_LIBRARY_PATH", sim())
        .output()
        .unwrap();
    truth(&done(output))
}

#[test]
fn slow_steps_are_named_in_the_finding() {
    if !can_trace("slow_steps_are_named_in_the_finding") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let flag = format!("--annotate={}", socket(&trace).display());
    let sim = sim().display().to_string();
    let reported = python(&trace, &[&flag], "tests/e2e/marks/train.py", &[&sim, "300", "140", "152"]);
    assert_eq!(reported["dropped"], 0);
    // Every step is there, with its duration, by the clock of the program.
    let steps = "FROM annotations WHERE event = 'step' AND state = 'ended' AND clock = 'annotator'";
    assert_eq!(trace.number(&format!("SELECT count(DISTINCT value) {steps}")), 300);
    assert_eq!(trace.number(&format!("SELECT count(*) {steps} AND pid = {}", reported["pid"])), 300);
    assert_eq!(trace.number(&format!("SELECT count(*) {steps} AND duration_ns > 15000000")), 13);
    assert_eq!(trace.number("SELECT count(*) FROM annotations WHERE event = 'epoch' AND duration_ns > 0"), 1);
    assert_eq!(trace.text(&format!("SELECT labels {steps} AND value = '7'")), r#"{"rank":"0","step":"7"}"#);
    assert_eq!(trace.number("SELECT count(*) FROM events WHERE layer = 'annotation' AND op = 'step'"), 300);
    // Calls lie in their steps: five launches each.
    let in_step = "SELECT count(*) FROM cuda_events c JOIN annotations a ON a.event = 'step' AND a.value = '145' \
                   AND c.timestamp_ns BETWEEN a.timestamp_ns AND a.timestamp_ns + a.duration_ns WHERE c.op = 'cuLaunchKernel'";
    assert_eq!(trace.number(in_step), 5, "all of them were slow, and kept");
    let answer = explained(&trace);
    let finding = answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["op"] == "cuLaunchKernel")
        .unwrap_or_else(|| panic!("no finding of launches in {answer}"));
    let step =
        &finding["steps"].as_array().unwrap().iter().find(|touched| touched["event"] == "step").unwrap();
    assert!(step["values"].as_str().unwrap().contains("140-152"), "{finding}");
    assert!(step["share_pct"].as_f64().unwrap() >= 80.0 && step["of"] == 300, "{step}");
    let page = done(gpuwhy().args(["explain", "--verbose"]).arg(trace.file()).output().unwrap());
    assert!(page.contains("             steps ") && page.contains("140-152"), "{page}");
    assert!(
        trace.text("SELECT steps FROM findings WHERE op = 'cuLaunchKernel'").contains("\"event\":\"step\"")
    );
    // Without --annotate nobody listens, and the program runs all the same.
    let quiet = Trace::new();
    let reported = python(&quiet, &[], "tests/e2e/marks/train.py", &[&sim, "20", "5", "6"]);
    assert_eq!((&reported["steps"], &reported["dropped"]), (&20.into(), &0.into()));
    assert_eq!(quiet.number("SELECT count(*) FROM annotations"), 0);
}

#[test]
fn marks_of_the_command_line_are_taken_and_answered() {
    if !can_trace("marks_of_the_command_line_are_taken_and_answered") {
        return;
    }
    let trace = Trace::new();
    let socket = socket(&trace);
    let flag = format!("--annotate={}", socket.display());
    let mut running = Running::start(&trace, &[&flag]);
    let own = std::process::id().to_string();
    done(annotate(&socket, &["--label", "epoch=3", "--label", "lr=0.1"]).output().unwrap());
    let reported = running.until("annotation", |mark| mark["event"] == "epoch");
    assert_eq!(
        (&reported["value"], &reported["labels"]["lr"], &reported["pid"]),
        (&"3".into(), &"0.1".into(), &Value::Null)
    );
    assert_eq!((&reported["state"], &reported["clock"]), (&"at".into(), &"annotator".into()));
    done(annotate(&socket, &["--label", "step=1", "--pid", &own, "--begin"]).output().unwrap());
    running.until("annotation", |mark| mark["state"] == "open" && mark["pid"] == std::process::id());
    done(annotate(&socket, &["--label", "step=1", "--pid", &own, "--end"]).output().unwrap());
    done(annotate(&socket, &["--label", "phase=a", "--next"]).output().unwrap());
    done(annotate(&socket, &["--label", "phase=b", "--next"]).output().unwrap());
    refused(&mut annotate(&socket, &["--label", "step=9", "--end"]), 1, &["begin it first"]);
    refused(
        &mut annotate(&socket, &["--label", "step=9", "--pid", "4294967295"]),
        1,
        &["there is no process"],
    );
    // A second trace cannot listen there.
    let second = Trace::new();
    let mut again = gpuwhy();
    again.args(["trace", "--out"]).arg(second.file()).arg(&flag);
    refused(&mut again, 1, &["another trace listens there", "--annotate=PATH"]);
    assert!(!second.file().exists(), "a trace that never began leaves no file");
    running.stop();
    assert!(!socket.exists());
    refused(
        &mut annotate(&socket, &["--label", "step=9"]),
        1,
        &["no trace listens", "gpuwhy trace --annotate"],
    );
    assert_eq!(trace.text("SELECT state FROM annotations WHERE event = 'step'"), "ended");
    assert_eq!(
        trace.text("SELECT group_concat(value || ' ' || state, ', ') FROM (SELECT * FROM annotations WHERE event = 'phase' ORDER BY timestamp_ns)"),
        "a ended, b open"
    );
    for (words, message) in [
        (&["annotate"][..], "--label"),
        (&["annotate", "--label", "step"], "name=value"),
        (&["annotate", "--label", "a b=1"], "letters, digits"),
        (&["annotate", "--label", "a=1", "--label", "a=2"], "given twice"),
        (&["annotate", "--label", "a=1", "--begin", "--end"], "--end"),
        (&["annotate", "--label", "a=1", "--pid", "me"], "not a process number"),
        (&["trace", "--servers=http://192.0.2.1:8000"], "not an address of this host"),
        (&["trace", "--servers=example.org"], "write it as http://127.0.0.1:8000"),
    ] {
        refused(gpuwhy().args(words), 2, &[message]);
    }
}

#[test]
fn users_mark_their_own_processes_only() {
    if !can_trace("users_mark_their_own_processes_only") {
        return;
    }
    let Some(unprivileged) = Unprivileged::new("users_mark_their_own_processes_only") else { return };
    let trace = Trace::new();
    let socket = socket(&trace);
    let running = Running::start(&trace, &[&format!("--annotate={}", socket.display())]);
    let of_unprivileged = |words: &[&str]| {
        let mut command = unprivileged.gpuwhy();
        command.arg("annotate").args(words).arg("--socket").arg(&socket);
        command
    };
    // Of all processes of its own.
    done(of_unprivileged(&["--label", "step=1"]).output().unwrap());
    let own = std::process::id().to_string();
    refused(&mut of_unprivileged(&["--label", "step=2", "--pid", &own]), 1, &["is of another user"]);
    refused(&mut of_unprivileged(&["--label", "step=3", "--pid", "1"]), 1, &["is of another user"]);
    // Root may.
    done(annotate(&socket, &["--label", "step=4", "--pid", "1"]).output().unwrap());
    let (_, summary) = running.stop();
    assert_eq!(trace.text("SELECT group_concat(value || ' ' || uid, ', ') FROM annotations"), "1 65534, 4 0");
    let coverage = summary["coverage"]["degraded"].to_string();
    assert!(coverage.contains("lines were refused: 2 about another user's process"), "{coverage}");
}

#[test]
fn garbage_floods_and_peers_that_vanish_are_borne() {
    if !can_trace("garbage_floods_and_peers_that_vanish_are_borne") {
        return;
    }
    let _alone = alone();
    let trace = Trace::new();
    let socket = socket(&trace);
    let mut running = Running::start(&trace, &[&format!("--annotate={}", socket.display())]);
    let connect = || UnixStream::connect(&socket).unwrap();
    // Garbage is answered, and the connection goes on.
    let mut stream = connect();
    stream
        .write_all(b"\xff\xfe\x00\n{\"labels\":{\"step\":[]}}\n{\"labels\":{\"step\":1},\"reply\":true}\n")
        .unwrap();
    let answers: Vec<String> =
        BufReader::new(stream.try_clone().unwrap()).lines().take(3).map(Result::unwrap).collect();
    assert!(answers[0].contains("\"ok\":false") && answers[1].contains("\"ok\":false"), "{answers:?}");
    assert_eq!(answers[2], "{\"ok\":true}");
    // Peers that say nothing, say half a line, or vanish.
    let silent: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    connect().write_all(b"{\"labels\":{\"half").unwrap();
    drop(connect());
    // A flood: what is beyond the limit is lost, and counted; all of it is either.
    const LINES: i64 = 100_000;
    let mut flood = connect();
    let page: String = (0..1000).map(|n| format!("{{\"labels\":{{\"flood\":{n}}}}}\n")).collect();
    for _ in 0..LINES / 1000 {
        flood.write_all(page.as_bytes()).unwrap();
    }
    drop(flood);
    running.until("sums", |_| true);
    // Everybody is still served.
    done(annotate(&socket, &["--label", "after=1"]).output().unwrap_or_else(|error| panic!("{error}")));
    drop(silent);
    let (_, summary) = running.stop();
    let stored = trace.number("SELECT count(*) FROM annotations WHERE event = 'flood'");
    let lost = trace.number("SELECT sum(count) FROM loss WHERE probe = 'annotate'");
    assert_eq!(stored + lost, LINES, "{stored} stored, {lost} lost");
    assert!((10_000..60_000).contains(&stored), "{stored}");
    assert_eq!(trace.number("SELECT count(*) FROM annotations WHERE event = 'after'"), 1);
    let coverage = summary["coverage"].to_string();
    assert!(coverage.contains("lines were refused: 3 not the JSON of a mark"), "{coverage}");
}

/// A port that nobody has.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_servers_latencies_stand_beside_the_findings() {
    if !can_trace("a_servers_latencies_stand_beside_the_findings") {
        return;
    }
    let _alone = alone();
    let trace = Trace::new();
    let port = free_port();
    // It is told by its command line: a program of this name.
    let program = trace.folder.path().join("vllm");
    std::fs::copy(Path::new(ROOT).join("tests/e2e/marks/vllm.py"), &program).unwrap();
    let words = [
        "serve",
        "stand-in",
        "--port",
        &port.to_string(),
        "--sim",
        &sim().display().to_string(),
        "--seconds",
        "12",
        "--slow",
        "7",
        "8.5",
    ]
    .map(ToString::to_string);
    let mut all: Vec<&OsStr> = vec![OsStr::new("python3"), program.as_os_str()];
    all.extend(words.iter().map(OsStr::new));
    let reported = trace.of_command(&["--servers"], &all);
    let samples = trace.number("SELECT count(*) FROM server_samples WHERE server = 'vllm'");
    assert!(samples >= 6, "{samples} samples");
    let pid = reported["pid"].as_i64().unwrap();
    assert_eq!(
        trace.number("SELECT count(*) FROM server_samples WHERE pid = (SELECT max(pid) FROM server_samples)"),
        samples
    );
    assert_eq!(trace.number("SELECT max(pid) FROM server_samples"), pid);
    assert_eq!(trace.text("SELECT max(model) FROM server_samples"), "stand-in");
    assert_eq!(
        trace.number("SELECT CAST(max(waiting) * 100 + max(kv_cache_pct) AS INTEGER) FROM server_samples"),
        250
    );
    // Requests of each sample are those of its buckets, and all samples have no more than there were.
    let requests = trace.number("SELECT sum(requests) FROM server_samples");
    assert!(requests > 0 && requests <= reported["requests"].as_i64().unwrap(), "{requests} of {reported}");
    let in_buckets =
        "SELECT sum(json_extract(j.value, '$[2]')) FROM server_samples, json_each(ttft_buckets) j";
    assert!(
        (trace.number(in_buckets) - requests).abs() <= samples,
        "one may be counted between two lines of the page"
    );
    let answer = explained(&trace);
    let server = &answer["servers"][0];
    assert_eq!(server["url"], format!("http://127.0.0.1:{port}/metrics"));
    let ttft = &server["latencies"]["ttft"];
    assert!(ttft["p99"]["us"].as_f64().unwrap() > 40_000.0, "{ttft}");
    assert!(ttft["p50"]["us"].as_f64().unwrap() < 20_000.0, "{ttft}");
    let worst = &server["worst"][0];
    assert_eq!(worst["signal"], "ttft");
    let found = &worst["findings"][0];
    assert_eq!((&found["pid"], &found["same_process"]), (&pid.into(), &true.into()), "{server}");
    assert!(found["title"].as_str().unwrap().contains("cuLaunchKernel"), "{found}");
    let page = done(gpuwhy().args(["explain", "--verbose"]).arg(trace.file()).output().unwrap());
    for words in
        ["Server vllm at http://127.0.0.1:", "time to first token: p50", "in the server's own process"]
    {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
}

#[test]
fn a_server_that_is_named_and_does_not_answer_is_said_so() {
    if !can_trace("a_server_that_is_named_and_does_not_answer_is_said_so") {
        return;
    }
    let trace = Trace::new();
    let port = free_port();
    let flag = format!("--servers=http://localhost:{port}");
    let mut running = Running::start(&trace, &[&flag]);
    let message = running.until("probe", |probe| probe["probe"] == "server");
    assert_eq!((&message["state"], &message["reason"]), (&"refused".into(), &"nobody listens there".into()));
    running.stop();
    assert_eq!(trace.number("SELECT count(*) FROM server_samples"), 0);
}

#[test]
fn the_python_module_and_the_examples_pass_their_own_tests() {
    for folder in ["python/tests", "examples/tests"] {
        let output = Command::new("python3")
            .args(["-B", "-m", "unittest", "discover", "-s", folder])
            .current_dir(ROOT)
            .env_remove("GPUWHY_ANNOTATE")
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && message.contains("OK"), "{folder}: {message}");
    }
}
