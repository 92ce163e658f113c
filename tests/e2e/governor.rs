//! What being watched costs stays within its budget: less is seen before more is paid, and every step is told.

use crate::support::{Trace, alone, can_trace, done, gpuwhy, simwork, truth};
use serde_json::Value;

/// The worst case: launches that do nothing, as fast as a thread can, with a stack asked for at each.
fn flood(trace: &Trace, budget: &str, seconds: u64) -> Value {
    let stop = trace.folder.path().join("stop");
    let path = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        // The test may be over, and its folder gone.
        let _ = std::fs::write(path, "");
    });
    let output = gpuwhy()
        .args(["trace", "--stacks", "on", "--budget", budget, "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["launch", "--via", "driver", "--launches", "0", "--stop-file"])
        .arg(&stop)
        .env("SIMGPU_NULL", "1")
        .output()
        .unwrap();
    truth(&done(output))
}

/// What `compare` tells of an operation of a trace: its count, and the interval where that is an estimate.
fn reported(trace: &Trace, op: &str, flags: &[&str]) -> (f64, Option<[f64; 2]>) {
    let output = gpuwhy().arg("compare").arg(trace.file()).args(flags).arg("--json").output().unwrap();
    let compared: Value = serde_json::from_str(&done(output)).unwrap();
    let operations = compared["operations"].as_array().unwrap();
    let side = &operations.iter().find(|one| one["op"] == op).unwrap_or_else(|| panic!("no {op}"))["b"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{op}: {side}"));
    let interval = side["calls_interval"].as_array();
    (number(&side["calls"]), interval.map(|ends| [number(&ends[0]), number(&ends[1])]))
}

/// The same of all of it.
fn total_reported(trace: &Trace, op: &str) -> (f64, Option<[f64; 2]>) {
    reported(trace, op, &[trace.file().to_str().unwrap()])
}

#[test]
fn the_worst_case_stays_within_its_budget_by_seeing_slices() {
    if !can_trace("the_worst_case_stays_within_its_budget_by_seeing_slices") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = flood(&trace, "1%", 20);
    let elapsed_ms = truth["elapsed_ns"].as_i64().unwrap() / 1_000_000;
    let cost_ms = trace.number("SELECT sum(cost_ns) / 1000000 FROM watch_costs");
    assert!(cost_ms <= elapsed_ms / 100, "{cost_ms} ms of {elapsed_ms} ms");
    let slices = trace.number("SELECT count(*) FROM watch_slices WHERE class = 'launches' AND pid IS NULL");
    assert!(slices >= 2, "besides what was watched at first there are slices: {slices}");
    let overlaps = trace.number(
        "SELECT count(*) FROM watch_slices a, watch_slices b WHERE a.pid IS NULL AND b.pid IS NULL \
         AND a.class = b.class AND a.start_ns < b.start_ns AND a.end_ns > b.start_ns",
    );
    assert_eq!(overlaps, 0, "one after the other");
    let outside = trace.number(
        "SELECT count(*) FROM call_stats c WHERE op = 'cuLaunchKernel' AND NOT EXISTS (SELECT 1 FROM watch_slices s \
         WHERE s.pid IS NULL AND c.window_start_ns >= s.start_ns - 500000000 \
         AND c.window_start_ns + c.window_ns <= s.end_ns + 1000)",
    );
    assert_eq!(outside, 0, "a window is of the time that was watched");
    let steps = trace.number(
        "SELECT count(*) FROM watch_changes WHERE probe = 'governor' AND target = 'launches' AND state = 'degraded'",
    );
    assert!(steps >= 1, "it is told");
}

/// Launches on a schedule, too many to watch them all, with a runtime call and the driver call in it now and then.
fn scheduled(trace: &Trace, flags: &[&str]) -> Value {
    let words = ["launch", "--via", "runtime", "--hz", "8000", "--sync-every", "40", "--launches", "120000"];
    trace.of_simwork(flags, &words)
}

#[test]
fn what_slices_tell_is_near_the_truth_and_what_is_rare_is_exact() {
    if !can_trace("what_slices_tell_is_near_the_truth_and_what_is_rare_is_exact") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = scheduled(&trace, &["--budget", "1%"]);
    let launches = truth["ops"]["cuLaunchKernel"].as_f64().unwrap();
    let slices =
        trace.text("SELECT group_concat((end_ns - start_ns) / 1000000) FROM watch_slices WHERE pid IS NULL");
    let (reported_launches, interval) = total_reported(&trace, "cuLaunchKernel");
    let [low, high] = interval.unwrap_or_else(|| panic!("launches are estimated from slices of {slices} ms"));
    let off_pct = 100.0 * (reported_launches / launches - 1.0);
    eprintln!("{launches} launches: {reported_launches} ({low} to {high}), {off_pct:+.2}%");
    // One interval in twenty does not contain the truth, as 95% say; one and a half times as wide, one in three hundred.
    let near = |end: f64| reported_launches + 1.5 * (end - reported_launches);
    assert!(near(low) <= launches && launches <= near(high), "{launches} launches: {low} to {high}");
    assert!(off_pct.abs() <= 10.0, "{launches} launches, told as {reported_launches}: {off_pct:+.1}%");
    let syncs = truth["ops"]["cudaStreamSynchronize"].as_i64().unwrap();
    assert_eq!(trace.count_of("cudaStreamSynchronize"), syncs, "synchronisations are always watched");
    assert_eq!(trace.count_of("cuStreamSynchronize"), 0, "the driver call in it is the same one");
    let message = done(gpuwhy().arg("explain").arg(trace.file()).output().unwrap());
    assert!(
        message.contains("launches sampled ") && message.contains("% of the time: the budget is 1%"),
        "{message}"
    );
    assert!(!message.contains("everything is seen"), "{message}");
    // On a busy machine there may be no slice for some seconds, and then nothing to estimate from.
    let (late, interval) = reported(&trace, "cuLaunchKernel", &["--since", "6s"]);
    eprintln!("the last 6 s: {late} {interval:?}");
    assert!((36_000.0..64_000.0).contains(&late), "8,000 a second for 6 s: {late} {interval:?}");
}

#[test]
fn without_a_budget_every_call_is_counted() {
    if !can_trace("without_a_budget_every_call_is_counted") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = scheduled(&trace, &["--budget", "100%"]);
    for op in ["cuLaunchKernel", "cudaStreamSynchronize"] {
        assert_eq!(trace.count_of(op), truth["ops"][op].as_i64().unwrap(), "{op}");
    }
    assert_eq!(trace.number("SELECT count(*) FROM watch_slices"), 0);
    assert_eq!(total_reported(&trace, "cuLaunchKernel").1, None, "no estimate");
}

#[test]
fn within_the_budget_every_call_is_counted_and_nothing_is_let_go() {
    if !can_trace("within_the_budget_every_call_is_counted_and_nothing_is_let_go") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    // 40 launches every 10 ms or more: a small share of the time even where traps are dear.
    let words = ["train", "--steps", "60", "--launches-per-step", "40", "--kernel-us", "250"];
    trace.of_simwork(&["--budget", "10%"], &words);
    assert_eq!(trace.count_of("cuLaunchKernel"), 60 * 40);
    assert_eq!(
        trace.number("SELECT count(*) FROM watch_changes"),
        0,
        "{}",
        trace.text("SELECT reason FROM watch_changes")
    );
    assert_eq!(trace.text("SELECT DISTINCT level FROM watch_costs"), "full");
    let calls = trace.number("SELECT sum(calls) FROM watch_costs");
    assert!(calls >= 60 * 40, "the bill has all of them: {calls}");
}

#[test]
fn wrong_budgets_are_refused_in_a_sentence() {
    for (budget, message) in [
        ("lots", "'lots' is not a share of the time; give a percentage such as 1% or 0.5%"),
        ("0%", "'0%' is not a share of the time"),
        ("200%", "'200%' is not a share of the time"),
        ("-1%", "'-1%' is not a share of the time"),
    ] {
        let output = gpuwhy().args(["trace", "--budget", budget]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{budget}: {stderr}");
        assert!(stderr.contains(message), "{budget}: {stderr}");
    }
}
