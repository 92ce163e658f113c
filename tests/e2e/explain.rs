//! `explain` as a user gets it: of every demonstration's recording the right cause, the contract's fields, and a sentence where
//! there is nothing to explain.

use crate::refusal::refused;
use crate::support::{Trace, done, gpuwhy};
use serde_json::Value;

/// Each demonstration, and what its first finding has to say.
const DEMOS: [(&str, &str); 14] = [
    ("cpu-hog", "cpu.preempted"),
    ("lock", "lock.futex"),
    ("page-faults", "mem.fault"),
    ("cold-start", "gpu.coldstart"),
    ("frees", "gpu.alloc"),
    ("gpu-busy", "gpu.wait"),
    ("copies", "copy.pcie"),
    ("recapture", "graph.recapture"),
    ("out-of-memory", "gpu.memory"),
    ("late-rank", "rank.straggler"),
    ("mismatch", "rank.hang"),
    ("hot-gpu", "gpu.throttle"),
    ("h200-item", "gpu.wait"),
    ("h200-loader", "io.block"),
];

fn replayed(demo: &str) -> Trace {
    let trace = Trace::new();
    let text = done(gpuwhy().args(["demo", demo, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    assert!(text.contains("REPLAYED"), "{text}");
    trace
}

fn explained(trace: &Trace) -> Value {
    let text = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_demo_says_what_is_wrong() {
    let list = done(gpuwhy().args(["demo", "--list"]).output().unwrap());
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known: Vec<&str> = DEMOS.iter().map(|(demo, _)| *demo).chain(["tour"]).collect();
    assert_eq!(names, known, "a demo without a verdict here");
    for (demo, class) in DEMOS {
        let trace = replayed(demo);
        let answer = explained(&trace);
        let first = &answer["findings"][0];
        assert_eq!(first["causes"][0]["class"], class, "{demo}: {}", first["title"]);
        assert!(first["explained_pct"].as_f64().unwrap() >= 60.0, "{demo}: {first}");
        let page = done(gpuwhy().arg("explain").arg(trace.file()).output().unwrap());
        for word in [class, "why", "cost", "do", "Coverage:"] {
            assert!(page.contains(word), "{demo}: {word} is not in\n{page}");
        }
        assert!(
            page.lines().take(16).any(|line| line.contains(class)),
            "{demo}: not on the first lines:\n{page}"
        );
    }
}

#[test]
fn lines_of_python_are_those_of_the_script() {
    for (demo, line) in [("h200-item", "train.py:41 step"), ("h200-loader", "train.py:30 read_batch")] {
        let answer = explained(&replayed(demo));
        assert_eq!(answer["findings"][0]["where"]["python"][0], line, "{demo}");
    }
}

#[test]
fn the_document_has_the_fields_of_the_contract() {
    let trace = replayed("cpu-hog");
    let answer = explained(&trace);
    let has = |value: &Value, fields: &[&str]| {
        for field in fields {
            assert!(value.get(field).is_some(), "{field} is missing in {value}");
        }
    };
    has(&answer, &["trace", "coverage", "steps", "findings", "tail", "idle"]);
    has(&answer["trace"], &["file", "start_ns", "end_ns", "events", "nodes"]);
    has(&answer["coverage"], &["lost", "sampled", "degraded", "unattached"]);
    let finding = &answer["findings"][0];
    has(
        finding,
        &[
            "id",
            "severity",
            "title",
            "op",
            "pid",
            "process",
            "cgroup",
            "rank",
            "node",
            "window",
            "impact",
            "causes",
            "explained_pct",
            "where",
            "fixes",
            "sql",
            "refuted_by",
            "rule",
        ],
    );
    has(&finding["window"], &["start_ns", "end_ns"]);
    has(&finding["impact"], &["calls", "slow_calls", "p50_us", "p99_us", "max_us", "excess_ms", "wall_pct"]);
    has(&finding["causes"][0], &["class", "share_pct", "ms", "by", "evidence"]);
    has(&finding["causes"][0]["by"][0], &["pid", "comm", "cgroup", "ms", "count"]);
    has(&finding["where"], &["python", "native", "kernel"]);
    has(&answer["tail"][0], &["op", "quantile", "p_us", "by_cause"]);
    assert_eq!(finding["causes"][0]["by"][0]["comm"], "cpu-hog");
    // The evidence can be asked for.
    let rows =
        done(gpuwhy().arg("query").arg(trace.file()).arg(finding["sql"].as_str().unwrap()).output().unwrap());
    assert!(rows.contains("cpu-hog"), "{rows}");
    // The same file gives the same bytes.
    let again = || done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
    assert_eq!(again(), again());
}

#[test]
fn what_is_chosen_is_told_and_nothing_else() {
    let trace = replayed("late-rank");
    let all = explained(&trace);
    let pid = all["findings"][0]["pid"].as_u64().unwrap().to_string();
    let page = |words: &[&str]| done(gpuwhy().arg("explain").arg(trace.file()).args(words).output().unwrap());
    assert!(page(&["--per-process"]).contains(&format!("== simwork[{pid}], rank 2")));
    assert!(page(&["--tail", "p99"]).contains("Calls at p99 and above"));
    let of_pid = page(&["--pid", &pid, "--json"]);
    let of_pid: Value = serde_json::from_str(&of_pid).unwrap();
    assert!(
        of_pid["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["pid"].as_u64() == pid.parse().ok())
    );
    refused(gpuwhy().arg("explain").arg(trace.file()).args(["--pid", "1"]), 3, &["no calls of process 1"]);
    refused(gpuwhy().arg("explain").arg(trace.file()).args(["--from", "yesterday"]), 2, &["is no time"]);
    let compared = done(gpuwhy().arg("compare").arg(trace.file()).arg(trace.file()).output().unwrap());
    assert!(compared.contains("No difference is beyond noise."), "{compared}");
    refused(gpuwhy().arg("compare").arg(trace.file()), 2, &["only one trace"]);
}
