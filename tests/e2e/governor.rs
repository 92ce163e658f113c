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

#[test]
fn the_worst_case_stays_within_its_budget_by_seeing_less() {
    if !can_trace("the_worst_case_stays_within_its_budget_by_seeing_less") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = flood(&trace, "1%", 20);
    let elapsed_ms = truth["elapsed_ns"].as_i64().unwrap() / 1_000_000;
    let launches = truth["ops"]["cuLaunchKernel"].as_i64().unwrap();
    let cost_ms = trace.number("SELECT sum(cost_ns) / 1000000 FROM watch_costs");
    // A burst of six seconds' worth may come first. Detaching takes a moment, in which calls go on.
    let allowed_ms = elapsed_ms / 100 + 60;
    assert!(cost_ms <= allowed_ms, "{cost_ms} ms of {elapsed_ms} ms, allowed are {allowed_ms} ms");
    assert!(cost_ms >= 50, "the budget is made use of: {cost_ms} ms");
    let counted = trace.count_of("cuLaunchKernel");
    assert!(counted < launches, "{counted} of {launches} launches can be counted within the budget");
    let steps = |state: &str| {
        trace.number(&format!(
            "SELECT count(*) FROM watch_changes WHERE state = '{state}' AND target = 'cuLaunchKernel'"
        ))
    };
    assert!(steps("degraded") >= 2 && steps("attached") >= 1, "let go and taken back, again and again");
    let levels = trace.number("SELECT count(DISTINCT reason) FROM watch_changes WHERE probe = 'governor'");
    assert!(levels >= 2, "the steps before that are told too: {levels}");
    let said = trace.text("SELECT reason FROM probes WHERE probe = 'governor'");
    assert!(!said.is_empty(), "the latest state is in `probes`");
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

/// Launches of 20 us each, so many, within one percent.
fn launch(trace: &Trace, launches: u64) -> Value {
    let output = gpuwhy()
        .args(["trace", "--budget", "1%", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["launch", "--via", "driver", "--launches", &launches.to_string()])
        .env("SIMGPU_LAUNCH_SPIN_NS", "20000")
        .output()
        .unwrap();
    truth(&done(output))
}

/// Sampled calls stand for those that were only counted: the sums stay right, the counts exact.
#[test]
fn sampling_keeps_counts_exact_and_sums_near() {
    if !can_trace("sampling_keeps_counts_exact_and_sums_near") {
        return;
    }
    let _turn = alone();
    // What a trap costs is measured anew at each start, and so it varies how many calls fill the room: more and more,
    // until sampling has begun.
    let mut launches = 12_000;
    let (trace, truth, steps) = loop {
        let trace = Trace::new();
        let truth = launch(&trace, launches);
        let steps = trace.text("SELECT group_concat(target || ': ' || reason, '; ') FROM watch_changes");
        if steps.contains("one in 16") {
            break (trace, truth, steps);
        }
        assert!(launches < 200_000, "it never got so far: {steps}");
        launches = launches * 5 / 4;
    };
    let launches = truth["ops"]["cuLaunchKernel"].as_i64().unwrap();
    if !steps.contains("detached") {
        assert_eq!(trace.count_of("cuLaunchKernel"), launches, "counts are exact while counting is possible");
    }
    let on_cpu_us = trace.number("SELECT sum(oncpu_ns) / 1000 FROM call_stats WHERE op = 'cuLaunchKernel'");
    let mean_us = on_cpu_us as f64 / trace.count_of("cuLaunchKernel") as f64;
    assert!((19.0..28.0).contains(&mean_us), "20 us each: {mean_us:.1} us on the CPU on average");
}

#[test]
fn wrong_budgets_are_refused_in_a_sentence() {
    for (budget, said) in [
        ("lots", "'lots' is not a share of the time; give a percentage such as 1% or 0.5%"),
        ("0%", "'0%' is not a share of the time"),
        ("200%", "'200%' is not a share of the time"),
        ("-1%", "'-1%' is not a share of the time"),
    ] {
        let output = gpuwhy().args(["trace", "--budget", budget]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{budget}: {stderr}");
        assert!(stderr.contains(said), "{budget}: {stderr}");
    }
}
