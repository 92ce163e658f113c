//! Beginnings and ends: Ctrl-C, kill -9, a second trace, sizes, durations.

use crate::support::{
    Ended, Gated, Running, Trace, alone, can_trace, done, gpuwhy, signal, simwork, wait_until,
};
use gpuwhy_probes::programs_loaded;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn endless() -> Ended {
    let child = Command::new(simwork())
        .args(["launch", "--launches", "0", "--via", "driver", "--gap-us", "50"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Ended(child)
}

#[test]
fn ctrl_c_ends_a_trace_within_a_second() {
    if !can_trace("ctrl_c_ends_a_trace_within_a_second") {
        return;
    }
    let _turn = alone();
    let workload = endless();
    // Single probes are for kernels that have no others; those that have let them go slowly, one by one.
    for attach in ["session", "multi"] {
        let trace = Trace::new();
        let mut running = Running::start(&trace, &["--attach", attach]);
        running.until_called(u64::from(workload.0.id()), "cuLaunchKernel", 100);
        let (took, summary) = running.stop();
        assert!(took < Duration::from_secs(1), "it took {took:?} to detach {attach} probes");
        assert!(summary["calls"].as_u64().unwrap() >= 100);
        assert_eq!(trace.number("SELECT count(*) FROM sessions WHERE end_ns IS NOT NULL"), 1);
        assert!(!trace.folder.path().join("trace.db-wal").exists(), "one plain file remains");
    }
}

#[test]
fn a_kernel_without_btf_is_refused_in_a_sentence() {
    if !can_trace("a_kernel_without_btf_is_refused_in_a_sentence") {
        return;
    }
    let trace = Trace::new();
    let script = format!(
        "mount -t tmpfs none /sys/kernel/btf && exec {} trace --duration 1s --out {}",
        env!("CARGO_BIN_EXE_gpuwhy"),
        trace.file().display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("no BTF") && words.trim().lines().count() == 1, "{words}");
    assert!(!trace.file().exists());
}

#[test]
fn a_trace_ends_with_the_status_of_its_command() {
    if !can_trace("a_trace_ends_with_the_status_of_its_command") {
        return;
    }
    let status = |flags: &[&str], script: &str| {
        let trace = Trace::new();
        let mut command = gpuwhy();
        command.arg("trace").args(flags).arg("--out").arg(trace.file()).args(["--", "sh", "-c", script]);
        let status = command.output().unwrap().status.code();
        assert!(trace.file().exists(), "{script}");
        status
    };
    assert_eq!(status(&[], "exit 0"), Some(0));
    assert_eq!(status(&[], "exit 7"), Some(7));
    assert_eq!(status(&["--json"], "exit 7"), Some(7));
    assert_eq!(status(&["--no-status"], "exit 7"), Some(0));
    assert_eq!(status(&[], "kill -9 $$"), Some(137));
}

#[test]
fn a_host_without_gpu_libraries_is_traced_and_told_so() {
    if !can_trace("a_host_without_gpu_libraries_is_traced_and_told_so") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let text = done(
        gpuwhy()
            .args(["trace", "--duration", "1s", "--out"])
            .arg(trace.file())
            .args(["--", "true"])
            .output()
            .unwrap(),
    );
    assert!(text.contains("No GPU calls were seen: no process mapped a GPU library"), "{text}");
    // There is nothing to explain, so nobody is sent to explain.
    assert!(!text.contains("gpuwhy explain"), "{text}");
    assert_eq!(trace.number("SELECT count(*) FROM call_stats"), 0);
}

#[test]
fn kill_9_leaves_no_probe_and_a_file_with_all_but_the_last_second() {
    if !can_trace("kill_9_leaves_no_probe_and_a_file_with_all_but_the_last_second") {
        return;
    }
    let _turn = alone();
    let before = programs_loaded("call_session");
    let workload = endless();
    let pid = u64::from(workload.0.id());
    let trace = Trace::new();
    let mut running = Running::start(&trace, &["--keep-all"]);
    running.until_called(pid, "cuLaunchKernel", 5_000);
    let after = programs_loaded("call_session");
    let loaded: Vec<u32> = after.into_iter().filter(|id| !before.contains(id)).collect();
    assert!(!loaded.is_empty(), "its programs are there while it runs");
    let killed_ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    // The workload runs on, untouched.
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    wait_until("the kernel has dropped its programs", || {
        let left = programs_loaded("call_session");
        loaded.iter().all(|id| !left.contains(id))
    });
    let newest = trace.number("SELECT max(timestamp_ns) FROM cuda_events");
    assert!(
        killed_ns - newest < 1_000_000_000,
        "the newest call is {} ms old",
        (killed_ns - newest) / 1_000_000
    );
    let counted_to = trace.number("SELECT max(window_start_ns + window_ns) FROM call_stats");
    assert!(
        killed_ns - counted_to < 1_000_000_000,
        "counted up to {} ms before",
        (killed_ns - counted_to) / 1_000_000
    );
    assert_eq!(trace.text("PRAGMA integrity_check"), "ok");
    // And the file takes another session.
    let output = gpuwhy().args(["trace", "--duration", "1s", "--out"]).arg(trace.file()).output().unwrap();
    done(output);
    assert_eq!(trace.number("SELECT count(*) FROM sessions"), 2);
}

#[test]
fn a_second_trace_into_the_same_file_is_refused_in_words() {
    if !can_trace("a_second_trace_into_the_same_file_is_refused_in_words") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let running = Running::start(&trace, &[]);
    let second = gpuwhy().args(["trace", "--duration", "1s", "--out"]).arg(trace.file()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(words.trim().lines().count(), 1, "{words}");
    assert!(words.contains(&running.child.id().to_string()), "it says who has it: {words}");
    running.stop();
}

#[test]
fn a_trace_keeps_to_its_duration_and_leaves_the_command_alone() {
    if !can_trace("a_trace_keeps_to_its_duration_and_leaves_the_command_alone") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let began = Instant::now();
    let output = gpuwhy()
        .args(["trace", "--duration", "1s", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["train", "--steps", "0", "--seconds", "4"])
        .output()
        .unwrap();
    let text = done(output);
    assert!(began.elapsed() >= Duration::from_secs(3), "the command was waited for");
    assert!(text.contains("\"command\":\"train\""), "and ended by itself: {text}");
    let traced = trace.number("SELECT (max(timestamp_ns) - min(timestamp_ns)) / 1000000 FROM cuda_events");
    assert!((500..2_500).contains(&traced), "traced {traced} ms");
}

#[test]
fn the_file_keeps_to_its_size() {
    if !can_trace("the_file_keeps_to_its_size") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let limit = 8 << 20;
    trace.of_simwork(
        &["--keep-all", "--stacks", "off", "--max-size", "8M"],
        &["launch", "--threads", "2", "--launches", "1000000", "--via", "driver"],
    );
    let size = std::fs::metadata(trace.file()).unwrap().len();
    assert!(size <= limit + limit / 10, "{size} bytes");
    assert!(trace.number("SELECT count(*) FROM cuda_events") > 10_000, "the newest stays");
    assert!(trace.number("SELECT sum(rows) FROM retention") > 0, "what was dropped is said");
}

#[test]
fn a_process_that_ends_while_traced_is_completed() {
    if !can_trace("a_process_that_ends_while_traced_is_completed") {
        return;
    }
    let trace = Trace::new();
    let gated = Gated::start(&simwork(), &["launch", "--launches", "1000"]);
    let pid = u64::from(gated.pid());
    let mut running = Running::start(&trace, &["--pid", &pid.to_string()]);
    gated.finish();
    let process = running.until("process", |process| process["pid"] == pid && !process["end_ns"].is_null());
    assert_eq!(process["exit_code"], 0);
    running.stop();
    assert_eq!(
        trace.number(&format!("SELECT count(*) FROM processes WHERE pid = {pid} AND end_ns > start_ns")),
        1
    );
}

#[test]
fn a_signal_stops_the_command_too() {
    if !can_trace("a_signal_stops_the_command_too") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let child = gpuwhy()
        .args(["trace", "--json", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["train", "--steps", "0", "--seconds", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let mut child = Ended(child);
    wait_until("the trace has begun", || trace.file().exists() && children_of(id).len() == 1);
    let command = children_of(id)[0];
    let began = Instant::now();
    signal(id, "TERM");
    assert!(child.0.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(2));
    wait_until("the command has ended", || !std::path::Path::new(&format!("/proc/{command}/exe")).exists());
}

fn children_of(pid: u32) -> Vec<u32> {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The screen's words without a screen, and no file that stays.
#[test]
fn top_shows_every_gpu_process_and_keeps_nothing() {
    const TEST: &str = "top_shows_every_gpu_process_and_keeps_nothing";
    if !can_trace(TEST) {
        return;
    }
    let _workload = endless();
    let folder = tempfile::tempdir().unwrap();
    let top = |words: &[&str]| {
        let mut top = gpuwhy();
        top.env("TMPDIR", folder.path()).args(["top", "--duration", "4s"]).args(words);
        done(top.output().unwrap())
    };
    let text = top(&["--interval", "1s"]);
    assert!(text.contains("calls/s") && text.contains("simwork["), "{text}");
    let json = top(&["--json"]);
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "summary");
    assert!(last["file"].is_null() && last["calls"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// On a pipe somebody waits: a line now and then says that it goes on.
#[test]
fn a_trace_on_a_pipe_says_how_far_it_is() {
    const TEST: &str = "a_trace_on_a_pipe_says_how_far_it_is";
    if !can_trace(TEST) {
        return;
    }
    let _workload = endless();
    let traced = |words: &[&str]| {
        let trace = Trace::new();
        let mut run = gpuwhy();
        run.args(["trace", "--duration", "13s", "--out"]).arg(trace.file()).args(words);
        let output = run.output().unwrap();
        let message = String::from_utf8(output.stderr.clone()).unwrap();
        (done(output), message)
    };
    let (text, message) = traced(&[]);
    let line =
        message.lines().find(|line| line.contains(" GPU calls, ")).unwrap_or_else(|| panic!("{message}"));
    assert!(line.contains("process") && line.contains("lost"), "{line}");
    // The answer comes last, and tables only where they are asked for.
    assert!(text.trim_end().lines().last().unwrap().contains("gpuwhy explain "), "{text}");
    assert!(text.contains("\n=> ") && !text.contains("\noperation "), "{text}");
    let (text, message) = traced(&["--quiet"]);
    assert!(!message.contains(" GPU calls, ") && text.lines().count() == 2, "{text}\n{message}");
    let (text, _) = traced(&["--verbose"]);
    let (tables, answer) = (text.find("\noperation ").unwrap(), text.find("\n=> ").unwrap());
    assert!(tables < answer, "{text}");
}
