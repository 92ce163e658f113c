//! Whatever other users of the host put in the way: the agent goes on, at no great cost, and traces whom it was tracing.

use crate::support::{Ended, Running, Trace, alone, can_trace, skip, wait_until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("strangers.py");
/// `unprivileged`, on every distribution.
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

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|children| {
            children.split_whitespace().map_while(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
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
    let pid = &children(stranger.0.id())[0].to_string();
    let trace = Trace::new();
    let running = Running::start(&trace, &["--pid", pid]);
    let (took, _) = running.stop();
    assert!(took.as_secs() < 20, "it ended after {took:?}");
    let message = trace.text(&format!(
        "SELECT reason FROM probes WHERE probe = 'agent' AND target = 'process {pid}' AND state = 'degraded'"
    ));
    assert!(message.starts_with("reading its memory or one of its files did not return"), "{message}");
    // And of everybody else all is seen.
    assert_traces(&Trace::new(), |_| {});
}

/// A program that begins now, with libraries of its own, and whose calls are seen.
pub(crate) fn new_program(running: &mut Running) -> (tempfile::TempDir, Ended) {
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
    (folder, work)
}

/// Traces all processes of the host, sees a program that begins now, and ends.
fn assert_traces(trace: &Trace, while_it_runs: impl Fn(&Running)) {
    let mut running = Running::start(trace, &[]);
    let (_folder, work) = new_program(&mut running);
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
