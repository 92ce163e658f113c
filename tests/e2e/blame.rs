//! Injected waits and who was behind them: the blame clock tells what was done to a thread, and by whom.

use crate::support::{Ended, Gated, Running, Trace, alone, can_trace, simwork};
use std::process::{Command, Stdio};

/// Milliseconds of an operation billed to a cause, and to somebody if named.
fn attributed_ms(trace: &Trace, op: &str, cause: &str, by_comm: Option<&str>) -> i64 {
    let by = by_comm.map(|comm| format!(" AND by_comm = '{comm}'")).unwrap_or_default();
    trace.number(&format!("SELECT sum(ns) / 1000000 FROM blame WHERE op = '{op}' AND cause = '{cause}'{by}"))
}

fn total_ms(trace: &Trace, op: &str) -> i64 {
    trace.number(&format!("SELECT sum(sum_ns) / 1000000 FROM call_stats WHERE op = '{op}'"))
}

/// A busy process on a CPU, while it is held.
fn hog(cpu: &str, name: &str) -> Ended {
    let mut command = Command::new(simwork());
    Ended(command.args(["hog", "--cpu", cpu, "--name", name]).stdout(Stdio::null()).spawn().unwrap())
}

/// How long the main thread of a process has had a CPU.
fn running_ms(pid: u32) -> u64 {
    let times = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    times.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

/// Traces a tight loop of launches on the first CPU for so long, and as long as it takes to start that.
fn launch_on_cpu_0(trace: &Trace, ms: u64) {
    const START_MS: u64 = 3000;
    let stop = stop_after_ms(trace, START_MS + ms);
    let words = ["launch", "--via", "driver", "--launches", "0", "--cpu", "0", "--stop-file", &stop];
    trace.of_simwork(&[], &words);
}

#[test]
fn a_cpu_hog_on_the_launching_core_is_named() {
    if !can_trace("a_cpu_hog_on_the_launching_core_is_named") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let hog = hog("0", "test-hog");
    launch_on_cpu_0(&trace, 2000);
    let waited = trace.number("SELECT sum(runq_ns) / 1000000 FROM call_stats WHERE op = 'cuLaunchKernel'");
    let by_hog = attributed_ms(&trace, "cuLaunchKernel", "cpu.preempted", Some("test-hog"));
    // A tight loop of probed launches is in a call for a good part of its time, and two busy threads share a core evenly.
    assert!(waited > 100, "waited {waited} ms in all");
    assert!(by_hog * 100 >= waited * 90, "{by_hog} of {waited} ms are the hog's");
    assert_eq!(
        trace.number("SELECT DISTINCT by_pid FROM blame WHERE by_comm = 'test-hog'"),
        i64::from(hog.0.id()),
        "the hog's process is named"
    );
    let slow = "SELECT count(*) FROM cuda_events WHERE kept = 'slow' AND runq_ns > duration_ns / 2 AND runq_ns > 1000000";
    assert!(trace.number(slow) > 0, "slow launches are kept with their wait");
}

/// A file that appears after a while, for workloads that run until told to stop.
fn stop_after_ms(trace: &Trace, ms: u64) -> String {
    let path = trace.folder.path().join("stop");
    let shown = path.display().to_string();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(ms));
        // The test may be over, and its folder gone.
        let _ = std::fs::write(path, "");
    });
    shown
}

#[test]
fn a_spinning_sync_is_on_the_cpu_and_waits_for_the_gpu() {
    if !can_trace("a_spinning_sync_is_on_the_cpu_and_waits_for_the_gpu") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    trace.of_simwork(&[], &["train", "--steps", "20", "--launches-per-step", "10", "--kernel-us", "2000"]);
    let total = total_ms(&trace, "cudaStreamSynchronize");
    assert!(total > 300, "20 steps of 20 ms GPU work: {total} ms");
    let gpu = attributed_ms(&trace, "cudaStreamSynchronize", "gpu.wait", None);
    // Another test's process may take the core for a moment.
    assert!(gpu * 100 >= total * 70, "{gpu} of {total} ms wait for the GPU");
}

#[test]
fn a_mutex_shows_as_futex_with_its_waker() {
    if !can_trace("a_mutex_shows_as_futex_with_its_waker") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["mutex", "--hold-ms", "20", "--rounds", "30"]);
    let waited_ms = truth["waited_ns"].as_i64().unwrap() / 1_000_000;
    let total = total_ms(&trace, "cuLaunchKernel");
    let by_holder = attributed_ms(&trace, "cuLaunchKernel", "lock.futex", Some("simgpu-holder"));
    assert!(waited_ms > 300, "{waited_ms}");
    assert!(by_holder * 100 >= total * 90, "{by_holder} of {total} ms are the holder's");
    assert_eq!(
        trace.number(
            "SELECT DISTINCT by_pid FROM blame WHERE cause = 'lock.futex' AND by_comm = 'simgpu-holder'"
        ),
        truth["pid"].as_i64().unwrap(),
    );
    assert!(trace.number("SELECT count(*) FROM cuda_events WHERE futex_ns > 10000000") >= 25);
}

#[test]
fn sleep_and_page_faults_have_their_own_columns() {
    if !can_trace("sleep_and_page_faults_have_their_own_columns") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let asleep = Gated::start_with(
        &simwork(),
        &["launch", "--launches", "50", "--via", "driver"],
        &[("SIMGPU_LAUNCH_SLEEP_NS", "5000000")],
    );
    let pid = asleep.pid();
    let mut running = Running::start(&trace, &["--pid", &pid.to_string()]);
    asleep.finish();
    running.until_ended(&[pid]);
    running.stop();
    assert_eq!(trace.count_of("cuLaunchKernel"), 50);
    let asleep_ms =
        trace.number("SELECT sum(sleep_ns) / 1000000 FROM call_stats WHERE op = 'cuLaunchKernel'");
    assert!((250..2_000).contains(&asleep_ms), "50 sleeps of 5 ms: {asleep_ms} ms");
}

#[test]
fn calls_are_counted_without_the_blame_clock() {
    if !can_trace("calls_are_counted_without_the_blame_clock") {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&["--probes", "cuda"], &["launch", "--launches", "1000", "--via", "driver"]);
    assert_eq!(trace.count_of("cuLaunchKernel"), 1000);
    assert_eq!(trace.number("SELECT count(*) FROM blame WHERE cause <> 'cpu.self'"), 0);
    assert_eq!(trace.number("SELECT count(*) FROM probes WHERE probe = 'sched'"), 0);
}

#[test]
fn neighbours_on_other_cores_are_not_blamed() {
    if !can_trace("neighbours_on_other_cores_are_not_blamed") {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        crate::support::skip("neighbours_on_other_cores_are_not_blamed", "there is one CPU only");
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let far_hog = hog("1", "far-hog");
    launch_on_cpu_0(&trace, 1000);
    assert!(trace.count_of("cuLaunchKernel") > 1000, "the launches were counted");
    assert!(running_ms(far_hog.0.id()) >= 500, "the neighbour was busy");
    assert_eq!(attributed_ms(&trace, "cuLaunchKernel", "cpu.preempted", Some("far-hog")), 0);
}
