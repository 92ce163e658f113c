//! Graphs: what each contains is remembered at its capture, and a launch expands to it; kernels have names; what
//! happens once is told.

use crate::support::{Gated, Running, Trace, alone, can_trace, simwork};
use serde_json::Value;

fn kinds(truth: &Value, list: &str) -> Vec<(String, String)> {
    truth[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["kind"].as_str().unwrap().into(), node["name"].as_str().unwrap().into()))
        .collect()
}

/// The nodes of the graphs in the trace, in order: kind and kernel.
fn nodes(trace: &Trace) -> Vec<(String, String)> {
    let db = trace.db();
    let mut statement = db
        .prepare(
            "SELECT n.kind, coalesce(k.mangled, '') FROM graph_nodes n LEFT JOIN kernels k ON k.pid = n.pid AND \
             k.handle = n.handle JOIN graphs g ON g.pid = n.pid AND g.graph = n.graph AND g.created_ns = n.created_ns \
             WHERE NOT coalesce(n.replaced, 0) AND g.exec IS NOT NULL ORDER BY g.created_ns, n.node",
        )
        .unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_replay_expands_to_what_was_captured() {
    if !can_trace("a_replay_expands_to_what_was_captured") {
        return;
    }
    for mode in ["capture", "explicit", "two-streams", "update"] {
        let trace = Trace::new();
        let words = ["graph", "--replays", "100", "--nodes", "5", "--copies", "1", "--mode", mode];
        let truth = trace.of_simwork(&[], &words);
        assert_eq!(nodes(&trace), kinds(&truth, "graph_nodes"), "{mode}");
        assert_eq!(
            trace.number("SELECT sum(launches) FROM graphs"),
            truth["replays"].as_i64().unwrap(),
            "{mode}: launches are exact"
        );
        let kernels = truth["graph_nodes"].as_array().unwrap().iter().filter(|node| node["kind"] == "kernel");
        assert_eq!(
            trace.number("SELECT sum(launches) FROM graph_kernels"),
            100 * kernels.count() as i64,
            "{mode}: a launch is all its kernels"
        );
        assert_eq!(trace.number("SELECT count(*) FROM graph_kernels WHERE kernel IS NULL"), 0);
        assert!(trace.number("SELECT count(*) FROM graph_launches") >= 5, "{mode}: kept launches expand too");
        assert_eq!(
            trace.number("SELECT count(*) FROM graphs WHERE destroyed_ns IS NULL"),
            0,
            "{mode}: their end was seen"
        );
    }
}

#[test]
fn a_child_graph_is_part_of_its_parent() {
    if !can_trace("a_child_graph_is_part_of_its_parent") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["graph", "--replays", "10", "--nodes", "4", "--mode", "child"]);
    let mut expected = Vec::new();
    for node in kinds(&truth, "graph_nodes") {
        let is_child = node.0 == "graph";
        expected.push(node);
        if is_child {
            expected.extend(kinds(&truth, "child_nodes"));
        }
    }
    assert_eq!(nodes(&trace), expected);
}

#[test]
fn captures_again_and_again_are_graphs_of_their_own() {
    if !can_trace("captures_again_and_again_are_graphs_of_their_own") {
        return;
    }
    let trace = Trace::new();
    let truth =
        trace.of_simwork(&[], &["graph", "--replays", "40", "--nodes", "3", "--recapture-every", "10"]);
    let captures = truth["captures"].as_i64().unwrap();
    assert_eq!(captures, 4);
    assert_eq!(trace.number("SELECT count(*) FROM graphs WHERE exec IS NOT NULL"), captures);
    assert_eq!(trace.number("SELECT sum(launches) FROM graphs"), 40);
    assert_eq!(trace.number("SELECT count(*) FROM graph_nodes"), captures * 3);
    assert_eq!(
        trace.count_of("cuLaunchKernel"),
        captures * 3,
        "calls while capturing are calls, and run nothing"
    );
    assert_eq!(trace.number("SELECT sum(launches) FROM kernels"), 0);
}

#[test]
fn a_graph_older_than_the_trace_says_so() {
    if !can_trace("a_graph_older_than_the_trace_says_so") {
        return;
    }
    let _turn = alone();
    let stop = tempfile::tempdir().unwrap();
    let stop_file = stop.path().join("stop").display().to_string();
    let workload = Gated::start(&simwork(), &["graph", "--replays", "0", "--stop-file", &stop_file]);
    workload.open();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    running.until_called(workload.pid().into(), "cudaGraphLaunch", 100);
    running.stop();
    std::fs::write(&stop_file, "").unwrap();
    assert_eq!(trace.number("SELECT count(*) FROM graphs WHERE nodes IS NULL AND graph = '0x0'"), 1);
    assert!(trace.number("SELECT launches FROM graphs") >= 100);
    assert_eq!(trace.number("SELECT count(*) FROM graph_nodes"), 0);
}

#[test]
fn launches_have_names_and_exact_counts() {
    if !can_trace("launches_have_names_and_exact_counts") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&["--keep-all"], &["coldstart", "--launches", "100"]);
    for (mangled, launches) in truth["launches_by_kernel"].as_object().unwrap() {
        assert_eq!(
            trace.number(&format!("SELECT sum(launches) FROM kernels WHERE mangled = '{mangled}'")),
            launches.as_i64().unwrap()
        );
    }
    assert_eq!(
        trace.number("SELECT count(*) FROM cuda_events WHERE op = 'cuLaunchKernel' AND kernel IS NULL"),
        0
    );
    assert_eq!(
        trace.text("SELECT name FROM kernels WHERE mangled = '_Z7softmaxPKfPfi'"),
        "softmax(float const*, float*, int)"
    );
}

#[test]
fn what_happens_once_is_an_event_of_its_own() {
    if !can_trace("what_happens_once_is_an_event_of_its_own") {
        return;
    }
    let trace = Trace::new();
    let program = simwork();
    let words: Vec<&std::ffi::OsStr> = ["env", "SIMGPU_MODULE_US=2000", "SIMGPU_JIT_US=5000"]
        .map(std::ffi::OsStr::new)
        .into_iter()
        .chain([program.as_os_str(), std::ffi::OsStr::new("coldstart")])
        .collect();
    trace.of_command(&[], &words);
    for (event, least) in [("context", 1), ("module_load", 2), ("jit", 2), ("first_launch", 1)] {
        let seen = trace.number(&format!("SELECT count(*) FROM coldstart_events WHERE event = '{event}'"));
        assert!(seen >= least, "{event}: {seen}");
    }
    assert!(
        trace.number("SELECT max(duration_ns) FROM coldstart_events WHERE event = 'jit'") >= 5_000_000,
        "compiling takes its time"
    );
    assert!(trace.text("SELECT name FROM coldstart_events WHERE op = 'cuModuleLoad'").ends_with(".cubin"));
    assert!(trace.number("SELECT count(*) FROM events WHERE layer = 'coldstart'") >= 6);
}

#[test]
fn the_gpus_time_lies_between_its_bounds() {
    if !can_trace("the_gpus_time_lies_between_its_bounds") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    // 20 kernels of 2 ms and a synchronisation, each step: the stream is busy 40 ms a step and the host waits for it.
    let words = ["train", "--steps", "40", "--launches-per-step", "20", "--kernel-us", "2000"];
    trace.of_simwork(&[], &words);
    let sum = |column: &str| trace.number(&format!("SELECT sum({column}) FROM gpu_time"));
    let busy = 40 * 20 * 2_000_000;
    let (lower, upper) = (sum("busy_lower_ns"), sum("busy_upper_ns"));
    assert!(lower <= busy && busy <= upper, "{lower} <= {busy} <= {upper}");
    assert!(lower > busy * 8 / 10, "a host that waits knows: {lower} of {busy}");
    assert!(upper < busy * 13 / 10, "{upper} of {busy}");
    assert_eq!(trace.number("SELECT count(*) FROM gpu_time WHERE busy_lower_ns > busy_upper_ns"), 0);
    assert_eq!(trace.number("SELECT count(*) FROM gpu_time WHERE busy_upper_ns > window_ns"), 0);
    assert_eq!(sum("launches"), trace.count_of("cuLaunchKernel"));
}
