//! Whatever other users of the host put in the way: the agent goes on, at no great cost, and traces whom it was tracing.

use crate::support::{Ended, Running, Trace, alone, can_trace, gpuwhy, skip, wait_until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("strangers.py");
/// `nobody`, on every distribution.
const STRANGER: &str = "65534";

/// Somebody who does what the script says, until it is dropped; nothing where that is not possible.
fn stranger(before: &[&str], kind: &str, folder: &Path) -> Option<Ended> {
    // Not one that is below a home that others may not enter.
    let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let script = [python, "-c", SCRIPT, kind];
    let (program, words) =
        [before, &script].concat().split_first().map(|(first, rest)| (*first, rest.to_vec()))?;
    let mut child: Child = Command::new(program)
        .args(words)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    let child = Ended(child);
    lines.any(|line| line.is_ok_and(|line| line == "ready")).then_some(child)
}

/// A file system that never says what is in its files, and a process that maps one of them as a library and never gives back the lock
/// of its own memory: reading its memory, its command line or the library sleeps for good, whatever signal comes.
#[test]
fn a_file_system_that_never_answers_stops_nobody() {
    const TEST: &str = "a_file_system_that_never_answers_stops_nobody";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().unwrap();
    let own_mounts = ["unshare", "--user", "--map-root-user", "--mount"];
    let Some(stranger) = stranger(&own_mounts, "unanswered", folder.path()) else {
        return skip(TEST, "no file system can be made");
    };
    let served = stranger.0.id();
    let children = fs::read_to_string(format!("/proc/{served}/task/{served}/children")).unwrap();
    let pid = children.trim();
    let trace = Trace::new();
    let running = Running::start(&trace, &["--pid", pid]);
    let (took, _) = running.stop();
    assert!(took.as_secs() < 20, "it ended after {took:?}");
    let said = trace.text(&format!(
        "SELECT reason FROM probes WHERE probe = 'agent' AND target = 'process {pid}' AND state = 'degraded'"
    ));
    assert!(said.starts_with("reading its memory or one of its files did not return"), "{said}");
    // And of everybody else all is seen.
    assert_traces(&Trace::new(), |_| {});
}

/// Traces all processes of the host, sees a program that begins now, and ends.
fn assert_traces(trace: &Trace, while_it_runs: impl Fn(&Running)) {
    let mut running = Running::start(trace, &[]);
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let words = ["launch", "--launches", "0", "--via", "driver", "--gap-us", "100"];
    let work = Command::new(folder.path().join(gpuwhy_simgpu::WORKLOAD))
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .map(Ended)
        .unwrap();
    running.until_called(work.0.id().into(), "cuLaunchKernel", 100);
    while_it_runs(&running);
    drop(work);
    let (took, _) = running.stop();
    assert!(took.as_secs() < 20, "it ended after {took:?}");
}

#[test]
fn a_pipe_in_the_place_of_a_library_stops_nobody() {
    const TEST: &str = "a_pipe_in_the_place_of_a_library_stops_nobody";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().unwrap();
    let Some(_stranger) = stranger(&["unshare", "--mount"], "pipe", folder.path()) else {
        return skip(TEST, "no mount namespace can be made");
    };
    assert_traces(&Trace::new(), |_| {});
}

#[test]
fn a_file_that_claims_gigabytes_costs_none() {
    const TEST: &str = "a_file_that_claims_gigabytes_costs_none";
    if !can_trace(TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(_stranger) = stranger(&[], "claims", folder.path()) else {
        return skip(TEST, "a file of gigabytes cannot be made");
    };
    let trace = Trace::new();
    assert_traces(&trace, |running| {
        let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak_kb < 400_000, "{peak_kb} kB");
    });
    let reason = trace.text(&format!(
        "SELECT reason FROM probes WHERE file = '{}' AND state = 'refused'",
        folder.path().join("libcuda.so.1").display()
    ));
    assert_eq!(reason, "its symbol table is larger than that of any real library");
}

#[test]
fn many_libraries_of_one_user_leave_room_for_others() {
    const TEST: &str = "many_libraries_of_one_user_leave_room_for_others";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).unwrap();
    fs::set_permissions(&copies, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let other_user = ["setpriv", "--reuid", STRANGER, "--clear-groups"];
    let Some(_stranger) = stranger(&other_user, "many", &copies) else {
        return skip(TEST, "nothing can be run as another user");
    };
    let trace = Trace::new();
    // As many descriptors as a shell gives; a trace takes what it needs.
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(1024), ..own };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    assert_traces(&trace, |_| {});
    rustix::process::setrlimit(rustix::process::Resource::Nofile, own).unwrap();
    let of_stranger = format!("file GLOB '{}/*'", copies.display());
    let attached = trace.number(&format!(
        "SELECT count(DISTINCT file) FROM probes WHERE state = 'attached' AND {of_stranger}"
    ));
    assert_eq!(attached, 64, "its share, and no more");
    let refused = trace.text(&format!("SELECT reason FROM probes WHERE state = 'refused' AND {of_stranger}"));
    assert!(refused.starts_with("user 65534 has 64 library files attached"), "{refused}");
}

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
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.filter_map(|task| read(task.unwrap().path())).collect()
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
    ("gpuwhy-foresee", "0000000000080004"),
    ("gpuwhy-servers", "0000000000080004"),
];

/// Threads that may more than they should, with what they may.
fn too_privileged(pid: u32) -> Vec<(String, String, bool)> {
    let is_wrong = |(name, may, is_root): &(String, String, bool)| match PRIVILEGED
        .iter()
        .find(|(known, _)| known == name)
    {
        Some((_, "all")) => false,
        Some((_, capabilities)) => *may != NOTHING.replace("0000000000000000", capabilities),
        None => may != NOTHING || *is_root,
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
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let words = ["launch", "--launches", "0", "--via", "driver", "--gap-us", "100"];
    let work = Command::new(folder.path().join(gpuwhy_simgpu::WORKLOAD))
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .map(Ended)
        .unwrap();
    running.until_called(work.0.id().into(), "cuLaunchKernel", 100);
    drop(work);
    wait_until("everything is confined again", || too_privileged(pid).is_empty());
    running.stop();
    assert!(!socket.exists(), "taken away by who made it");
    assert_eq!(trace.text("PRAGMA integrity_check"), "ok");
    let beside = |suffix: &str| trace.file().with_extension(format!("db{suffix}")).exists();
    assert!(!beside("-wal") && !beside("-shm"), "one file remains");
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("wait on disk for the next trace"), "{said}");
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
    let mut said = String::new();
    worker.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let explained: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(explained["trace"]["events"].as_u64().unwrap() > 0, "{said}");
}

/// A host that starts programs from fresh copies of their libraries does so without end.
#[test]
fn libraries_that_are_deleted_are_closed_when_their_processes_have_ended() {
    if !can_trace("libraries_that_are_deleted_are_closed_when_their_processes_have_ended") {
        return;
    }
    let trace = Trace::new();
    let running = Running::start(&trace, &[]);
    let agent = running.child.id();
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    let path = folder.path().to_path_buf();
    let open_files = || {
        let links = fs::read_dir(format!("/proc/{agent}/fd"))
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link.starts_with(&path)).count()
    };
    let mut work = Command::new(path.join(gpuwhy_simgpu::WORKLOAD))
        .args(["launch", "--launches", "0", "--via", "driver", "--gap-us", "1000"])
        .stdout(Stdio::null())
        .spawn()
        .map(Ended)
        .unwrap();
    wait_until("the libraries are attached", || open_files() > 0);
    work.0.kill().unwrap();
    work.0.wait().unwrap();
    folder.close().unwrap();
    wait_until("they are closed", || open_files() == 0);
    running.stop();
}
