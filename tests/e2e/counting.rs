//! Every call is counted, exactly, whatever is kept of it.

use crate::support::{Trace, alone, can_trace, sim};
use gpuwhy_model::Role;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// Spellings of one operation are one operation.
fn op_of(symbol: &str) -> &str {
    gpuwhy_probes::op_of_symbol(symbol)
}

/// The operations whose calls the workloads count: not those of which only the entry is seen, nor contexts, which the
/// runtime makes on its own.
fn compared() -> Vec<String> {
    gpuwhy_probes::op_infos(gpuwhy_probes::PROBES)
        .into_iter()
        .filter(|op| !matches!(op.role, Role::SetDevice | Role::Register | Role::ContextCreate))
        .map(|op| op.name)
        .collect()
}

/// Returned calls by operation, children included, of those gpuwhy probes.
fn expected(truth: &Value) -> BTreeMap<String, i64> {
    let known = compared();
    let mut sums = BTreeMap::new();
    for part in [truth, &truth["children"], &truth["earlier"]] {
        for (symbol, count) in part["ops"].as_object().into_iter().flatten() {
            if known.iter().any(|op| op == op_of(symbol)) {
                *sums.entry(op_of(symbol).to_string()).or_insert(0) += count.as_i64().unwrap();
            }
        }
    }
    sums
}

fn counted(trace: &Trace) -> BTreeMap<String, i64> {
    let db = trace.db();
    let mut statement = db.prepare("SELECT op, sum(count) FROM call_stats GROUP BY op").unwrap();
    let known = compared();
    statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .filter(|(op, _): &(String, i64)| known.contains(op))
        .collect()
}

/// What holds of every trace: sums match histograms, kept calls are there or were reported lost, blame adds up.
fn assert_consistent(trace: &Trace) {
    assert_eq!(
        trace.number("SELECT sum(j.value) FROM call_stats, json_each(hist) j"),
        trace.number("SELECT sum(count) FROM call_stats"),
        "histograms hold every call"
    );
    assert_eq!(
        trace.number("SELECT count(*) FROM cuda_events"),
        trace.number("SELECT sum(kept) FROM call_stats"),
        "every kept call is in the file"
    );
    assert_eq!(
        trace.number(
            "SELECT count(*) FROM cuda_events WHERE abs(oncpu_ns + runq_ns + blocked_ns - duration_ns) > \
             max(2000, duration_ns / 100)"
        ),
        0,
        "the parts of blame sum to the duration"
    );
    assert_eq!(
        trace.number("SELECT sum(oncpu_ns + runq_ns + blocked_ns) FROM call_stats"),
        trace.number("SELECT sum(sum_ns) FROM call_stats"),
        "so do the sums"
    );
}

#[test]
fn eight_threads_of_launches_are_counted_to_the_last_one() {
    if !can_trace("eight_threads_of_launches_are_counted_to_the_last_one") {
        return;
    }
    let _turn = alone();
    // The driver alone: detaching single probes takes the kernel a good part of a second each.
    let folder = tempfile::tempdir().unwrap();
    for name in [gpuwhy_simgpu::WORKLOAD_STATIC, "libcuda.so.1"] {
        std::fs::copy(sim().join(name), folder.path().join(name)).unwrap();
    }
    let program = folder.path().join(gpuwhy_simgpu::WORKLOAD_STATIC);
    let words: Vec<&OsStr> = std::iter::once(program.as_os_str())
        .chain(["launch", "--threads", "8", "--launches", "25000", "--via", "driver"].map(OsStr::new))
        .collect();
    for attach in ["session", "multi", "single"] {
        let trace = Trace::new();
        trace.of_command(&["--attach", attach], &words);
        assert_eq!(trace.count_of("cuLaunchKernel"), 200_000, "{attach}");
        assert_consistent(&trace);
    }
}

#[test]
fn nothing_is_lost_silently_when_everything_is_kept() {
    if !can_trace("nothing_is_lost_silently_when_everything_is_kept") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = trace.of_simwork(
        &["--keep-all", "--stacks", "on"],
        &["launch", "--threads", "8", "--launches", "25000", "--via", "driver"],
    );
    assert_eq!(counted(&trace), expected(&truth));
    let kept = trace.number("SELECT count(*) FROM cuda_events");
    let lost = trace.number("SELECT sum(count) FROM loss WHERE reason LIKE 'ring full: a kept call%'");
    assert_eq!(
        kept + lost,
        trace.number("SELECT sum(count) FROM call_stats"),
        "kept and reported lost are all"
    );
    assert_consistent(&trace);
}

#[test]
fn launches_through_the_runtime_count_once_and_say_so() {
    if !can_trace("launches_through_the_runtime_count_once_and_say_so") {
        return;
    }
    let _turn = alone();
    for (via, message) in [("runtime", "runtime"), ("driver", "direct")] {
        let trace = Trace::new();
        // Whose code the calls return to is read from its maps while it lives.
        let words = ["launch", "--launches", "2000", "--via", via, "--live-ms", "500"];
        let truth = trace.of_simwork(&["--keep-all"], &words);
        assert_eq!(counted(&trace), expected(&truth));
        assert_eq!(trace.text("SELECT DISTINCT via FROM cuda_events WHERE op = 'cuLaunchKernel'"), message);
    }
}

#[test]
fn nested_calls_and_callbacks_are_counted_once() {
    if !can_trace("nested_calls_and_callbacks_are_counted_once") {
        return;
    }
    for attach in ["session", "multi"] {
        let trace = Trace::new();
        let truth = trace.of_simwork(&["--attach", attach], &["nested", "--rounds", "200"]);
        assert_eq!(counted(&trace), expected(&truth), "{attach}");
        assert_consistent(&trace);
    }
}

#[test]
fn threads_and_processes_that_die_inside_a_call_leave_nothing_behind() {
    if !can_trace("threads_and_processes_that_die_inside_a_call_leave_nothing_behind") {
        return;
    }
    for how in ["thread", "process", "exec", "fork", "kill"] {
        let trace = Trace::new();
        let truth = trace.of_simwork(&[], &["die", "--how", how]);
        assert_eq!(counted(&trace), expected(&truth), "{how}");
        assert_eq!(
            trace.number("SELECT max(max_ns) > 60e9 FROM call_stats"),
            0,
            "no return was paired with a dead entry"
        );
        assert_consistent(&trace);
    }
}

#[test]
fn a_thousand_short_lived_processes_are_counted() {
    if !can_trace("a_thousand_short_lived_processes_are_counted") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["many", "--processes", "1000"]);
    assert_eq!(truth["children"]["count"], 1000);
    assert_eq!(counted(&trace), expected(&truth));
    // What is counted is exact. Records of processes may be lost where so many come at once on a busy machine; none of them silently.
    let lost = trace.number("SELECT sum(count) FROM loss WHERE reason NOT LIKE '%stack%'");
    let known = trace.number("SELECT count(*) FROM processes");
    let by_probe = "SELECT group_concat(probe || ' ' || reason || ' ' || n, ', ') FROM (SELECT probe, reason, sum(count) AS n FROM loss GROUP BY 1, 2)";
    assert!(known <= 1001 && known + lost >= 1001, "{known} are known, lost: {}", trace.text(by_probe));
    let open = trace.number("SELECT count(*) FROM processes WHERE end_ns IS NULL");
    assert!(open <= lost, "{open} have no end, {lost} were lost");
}

#[test]
fn five_hundred_threads_are_counted() {
    if !can_trace("five_hundred_threads_are_counted") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["threads", "--n", "500", "--launches", "100"]);
    assert_eq!(counted(&trace), expected(&truth));
    assert!(trace.count_of("cuLaunchKernel") >= 50_000);
    assert_eq!(trace.number("SELECT count(*) FROM process_events WHERE event = 'thread_start'"), 500);
}

#[test]
fn only_the_sample_is_unbiased_and_says_its_weight() {
    if !can_trace("only_the_sample_is_unbiased_and_says_its_weight") {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&[], &["launch", "--launches", "1000000", "--via", "driver"]);
    let stands_for = trace.number("SELECT sum(sample_weight) FROM cuda_events WHERE op = 'cuLaunchKernel'");
    // A thousand or so draws of 1 in 1024: five standard deviations are 16%.
    assert!((840_000..1_160_000).contains(&stands_for), "{stands_for}");
}
