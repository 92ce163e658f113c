//! Whatever other users of the host put in the way: the agent goes on, at no great cost, and traces whom it was tracing.

use crate::support::{Ended, Running, Trace, alone, can_trace, skip, wait_until};
use std::fs;
use std::io::{BufRead, BufReader};
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
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let child = Ended(child);
    (line == "ready\n").then_some(child)
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
    let _turn = alone();
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

/// A thread of the agent: its name, and the lines of its status that say what it may do.
fn threads(pid: u32) -> Vec<(String, String)> {
    let wanted = |line: &&str| ["CapEff", "NoNewPrivs", "Seccomp:"].iter().any(|name| line.starts_with(name));
    let read = |task: std::path::PathBuf| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let name = status.lines().next()?.trim_start_matches("Name:").trim().to_string();
        let lines: Vec<String> = status.lines().filter(wanted).map(|line| line.replace('\t', " ")).collect();
        Some((name, lines.join(", ")))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.filter_map(|task| read(task.unwrap().path())).collect()
}

#[test]
fn threads_that_parse_store_and_serve_may_do_nothing_else() {
    if !can_trace("threads_that_parse_store_and_serve_may_do_nothing_else") {
        return;
    }
    let trace = Trace::new();
    let annotate = format!("--annotate={}", trace.folder.path().join("annotate.sock").display());
    let running = Running::start(&trace, &[&annotate, "--prometheus", "127.0.0.1:0"]);
    let threads = threads(running.child.id());
    for name in ["gpuwhy-names", "gpuwhy-store", "gpuwhy-annotate", "gpuwhy-metrics"] {
        let (_, may) = threads
            .iter()
            .find(|(found, _)| found == name)
            .unwrap_or_else(|| panic!("no thread {name} among {threads:?}"));
        assert_eq!(may, "CapEff: 0000000000000000, NoNewPrivs: 1, Seccomp: 2", "{name}");
    }
    running.stop();
    assert_eq!(trace.text("PRAGMA integrity_check"), "ok");
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
