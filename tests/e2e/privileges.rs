//! What each thread of the binary may do: that which parses, stores and serves has nothing of root's.

use crate::strangers::{children, new_program};
use crate::support::{Ended, Running, Trace, can_trace, done, gpuwhy, skip, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

/// A thread of the agent: its name, the lines of its status that say what it may do, and whether it is root's.
fn threads(pid: u32) -> Vec<(String, String, bool)> {
    let wanted = |line: &&str| ["CapEff", "NoNewPrivs", "Seccomp:"].iter().any(|name| line.starts_with(name));
    let read = |task: std::path::PathBuf| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let name = status.lines().next()?.trim_start_matches("Name:").trim().to_string();
        let lines: Vec<String> = status.lines().filter(wanted).map(|line| line.replace('\t', " ")).collect();
        let ids = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).unwrap().to_string();
        let is_root = [ids("Uid:"), ids("Gid:")].iter().any(|ids| ids.split_whitespace().any(|id| id == "0"));
        Some((name, lines.join(", "), is_root || !ids("Groups:").trim().is_empty()))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| read(task.path())).collect()
}

/// What a thread may that parses, stores, serves or shows.
const NOTHING: &str = "CapEff: 0000000000000000, NoNewPrivs: 1, Seccomp: 2";

/// Threads that are root's, with the capabilities they have: `docs/security.md` says why. Any other has none, and its own user.
const PRIVILEGED: &[(&str, &str)] = &[
    ("gpuwhy-agent", "all"),
    ("gpuwhy-ready", "all"),
    ("gpuwhy-load", "all"),
    // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER; CAP_KILL, CAP_SETGID, CAP_SETUID.
    ("gpuwhy-findings", "00000000000000eb"),
    ("gpuwhy-files", "000000000000000b"),
    // CAP_SYS_ADMIN.
    ("gpuwhy-pollers", "0000000000200000"),
    // CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE.
    ("gpuwhy-foresee", "0000000000080004"),
    ("gpuwhy-owners", "0000000000080004"),
    ("gpuwhy-places", "0000000000080004"),
    ("gpuwhy-servers", "0000000000080004"),
];

/// Threads that may more than they should, with what they may.
fn too_privileged(pid: u32) -> Vec<(String, String, bool)> {
    too_privileged_but(pid, &[])
}

/// The same, where some are root's by their user.
fn too_privileged_but(pid: u32, roots: &[&str]) -> Vec<(String, String, bool)> {
    let is_wrong = |(name, may, is_root): &(String, String, bool)| match PRIVILEGED
        .iter()
        .find(|(known, _)| known == name)
    {
        Some((_, "all")) => false,
        Some((_, capabilities)) => *may != NOTHING.replace("0000000000000000", capabilities),
        None => may != NOTHING || *is_root && !roots.contains(&name.as_str()),
    };
    threads(pid).into_iter().filter(is_wrong).collect()
}

#[test]
fn threads_that_parse_store_and_serve_may_do_nothing_else() {
    if !can_trace("threads_that_parse_store_and_serve_may_do_nothing_else") {
        return;
    }
    let trace = Trace::new();
    let socket = trace.folder.path().join("annotate.sock");
    let annotate = format!("--annotate={}", socket.display());
    let words = [&annotate, "--prometheus", "127.0.0.1:0", "--otlp", "http://127.0.0.1:1", "--servers"];
    let mut running = Running::start(&trace, &words);
    let pid = running.child.id();
    // A thread is confined a moment after it began; one that is not in the list above never is.
    let expected = [
        "gpuwhy",
        "gpuwhy-reader",
        "gpuwhy-names",
        "gpuwhy-sites",
        "gpuwhy-maps",
        "gpuwhy-pages",
        "gpuwhy-annotate",
        "gpuwhy-metrics",
        "gpuwhy-otlp",
        "gpuwhy-fabric",
        "gpuwhy-store",
    ];
    for name in expected {
        wait_until(name, || threads(pid).iter().any(|(found, may, _)| found == name && may == NOTHING));
    }
    wait_until("everything else is confined", || too_privileged(pid).is_empty());
    // And so it stays while processes, libraries and interpreters come.
    let (_folder, work) = new_program(&mut running);
    drop(work);
    wait_until("everything is confined again", || too_privileged(pid).is_empty());
    running.stop();
    assert!(!socket.exists(), "taken away by who made it");
    assert_eq!(trace.text("PRAGMA integrity_check"), "ok");
    let beside = |suffix: &str| trace.file().with_extension(format!("db{suffix}")).exists();
    assert!(!beside("-wal") && !beside("-shm"), "one file remains");
}

/// What waits for a fleet is in files of root's: who writes and sends them is root, and has nothing else of it.
#[test]
fn threads_that_push_to_a_fleet_have_no_capability() {
    if !can_trace("threads_that_push_to_a_fleet_have_no_capability") {
        return;
    }
    let trace = Trace::new();
    let spool = trace.folder.path().join("spool").display().to_string();
    let fleet = ["--fleet", "http://127.0.0.1:1", "--fleet-spool", &spool, "--otlp", "http://127.0.0.1:1"];
    let running = Running::start(&trace, &fleet);
    let pid = running.child.id();
    for name in ["gpuwhy", "gpuwhy-otlp", "gpuwhy-reader", "gpuwhy-store"] {
        wait_until(name, || threads(pid).iter().any(|(found, may, _)| found == name && may == NOTHING));
    }
    let roots = ["gpuwhy", "gpuwhy-otlp"];
    wait_until("everything else is confined", || too_privileged_but(pid, &roots).is_empty());
    running.stop();
}

fn replayed(trace: &Trace) {
    let mut demo = gpuwhy();
    done(demo.args(["demo", "--replay", "--out"]).arg(trace.file()).output().unwrap());
}

#[test]
fn the_process_that_answers_sql_may_do_nothing_else() {
    let trace = Trace::new();
    replayed(&trace);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let query = gpuwhy()
        .arg("query")
        .arg(trace.file())
        .args([endless, "--timeout", "20s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Ended)
        .unwrap();
    let of_root = rustix::process::geteuid().is_root();
    wait_until("it answers as its own user", || {
        let workers = children(query.0.id());
        let mut threads = workers.into_iter().flat_map(threads);
        threads.next().is_some_and(|(_, may, is_root)| may == NOTHING && !(of_root && is_root))
    });
}

/// A server reads what others ask, and the trace: it can start what it needs, and nothing else.
#[test]
fn servers_have_given_up_what_serving_a_trace_does_not_need() {
    const TEST: &str = "servers_have_given_up_what_serving_a_trace_does_not_need";
    if !rustix::process::geteuid().is_root() {
        return skip(TEST, "only root has something to give up");
    }
    let trace = Trace::new();
    replayed(&trace);
    // CAP_SETGID, CAP_SETUID: for those it starts.
    let may = NOTHING.replace("0000000000000000", "00000000000000c0");
    let started = |words: &[&str]| {
        let mut command = gpuwhy();
        command
            .args(words)
            .arg(trace.file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.spawn().map(Ended).unwrap()
    };
    for words in [&["dashboard", "--listen", "127.0.0.1:0"][..], &["mcp"], &["mcp", "--http", "127.0.0.1:0"]]
    {
        let server = started(words);
        let pid = server.0.id();
        let is_given_up = |(name, has, _): &(String, String, bool)| match name.as_str() {
            "gpuwhy-host" => true,
            _ => *has == may,
        };
        wait_until("it serves, and has given up the rest", || {
            let threads = threads(pid);
            threads.len() > 1 && threads.iter().all(is_given_up)
        });
    }
}

/// Whoever hands something over for a fleet puts it on the disk first, where the folder is root's.
#[test]
fn what_waits_for_a_fleet_is_kept_though_nobody_who_writes_it_has_a_capability() {
    if !can_trace("what_waits_for_a_fleet_is_kept_though_nobody_who_writes_it_has_a_capability") {
        return;
    }
    let trace = Trace::new();
    let spool = trace.folder.path().join("spool");
    let work = ["launch", "--launches", "3000", "--via", "driver", "--gap-us", "1000"];
    let output = gpuwhy()
        .args(["trace", "--fleet", "http://127.0.0.1:1", "--fleet-spool"])
        .arg(&spool)
        .arg("--out")
        .arg(trace.file())
        .arg("--")
        .arg(crate::support::simwork())
        .args(work)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(message.contains("wait on disk for the next trace"), "{message}");
    assert!(fs::read_dir(&spool).unwrap().count() > 0);
}

#[test]
fn the_process_that_explains_may_do_nothing_else() {
    const TEST: &str = "the_process_that_explains_may_do_nothing_else";
    if !can_trace(TEST) {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&[], &["launch", "--launches", "2000", "--via", "driver", "--gap-us", "200"]);
    let mut worker = gpuwhy()
        .arg("explain-worker")
        .arg(trace.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Ended)
        .unwrap();
    // It waits for its question, and has given up everything before.
    let pid = worker.0.id();
    let is_confined = |name: &str, may: &str, of_root: bool| {
        threads(pid).iter().any(|(found, has, is_root)| found == name && has == may && *is_root == of_root)
    };
    wait_until("it explains as its own user", || is_confined("gpuwhy-explain", NOTHING, false));
    assert_eq!(too_privileged(pid), []);
    drop(worker.0.stdin.take().map(|mut stdin| stdin.write_all(b"\"recent\"")));
    let mut message = String::new();
    worker.0.stdout.take().unwrap().read_to_string(&mut message).unwrap();
    let explained: serde_json::Value = serde_json::from_str(&message).unwrap();
    assert!(explained["trace"]["events"].as_u64().unwrap() > 0, "{message}");
}
