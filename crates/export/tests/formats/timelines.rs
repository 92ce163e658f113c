//! Tracks, slices within slices, and arrows.

use crate::made::{chrome, shown, trace};
use serde_json::Value;

/// Where each arrow begins and ends: `pid/tid` and time.
fn arrows(events: &[Value]) -> Vec<String> {
    let end = |flow: &Value, phase: &str| {
        let found = events.iter().find(|event| event["ph"] == phase && event["id"] == *flow);
        found
            .map(|event| format!("{}/{} {}", event["pid"], event["tid"], event["ts"].as_f64().unwrap() * 1e3))
    };
    let starts = events.iter().filter(|event| event["ph"] == "s");
    let mut arrows: Vec<String> = starts
        .filter_map(|start| Some(format!("{} > {}", end(&start["id"], "s")?, end(&start["id"], "f")?)))
        .collect();
    arrows.sort();
    arrows
}

const CALL: &str = "INSERT INTO calls (timestamp_ns, duration_ns, op_id, pid, tid, kept, stream, handle, oncpu_ns, runq_ns) VALUES ";
const WAIT: &str =
    "INSERT INTO sched_events (timestamp_ns, duration_ns, event, pid, tid, by_pid, by_tid, by_comm) VALUES ";

#[test]
fn a_wait_lies_within_its_call_and_an_arrow_comes_from_who_was_behind_it() {
    let (_folder, reader) = trace(&format!(
        "{CALL}(T + 1000, 5000, 1, 10, 11, 2, NULL, NULL, 2000, 3000); {WAIT}(T + 2000, 3000, 'preempted', 10, 11, 20, 21, 'hog');
         INSERT INTO processes (pid, start_ns, comm, rank) VALUES (10, 1, 'python', 3);
         INSERT INTO neighbours (pid, comm, first_seen_ns) VALUES (20, 'hog', 5);"
    ));
    let events = chrome(&reader);
    assert_eq!(
        shown(&events, "X"),
        [
            "cuLaunchKernel @ 10/11 1000+5000",
            "behind preempted of python 11 @ 20/21 2000+3000",
            "preempted @ 10/11 2000+3000"
        ]
    );
    assert_eq!(arrows(&events), ["20/21 2000 > 10/11 2000"]);
    let call = events.iter().find(|event| event["name"] == "cuLaunchKernel").unwrap();
    assert_eq!((&call["args"]["oncpu_ns"], &call["args"]["runq_ns"]), (&2000.into(), &3000.into()));
    assert_eq!(call["args"]["kept"], "slow");
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["python (rank 3)", "hog"]);
}

#[test]
fn a_synchronisation_waits_for_the_latest_launch_on_its_stream() {
    let (_folder, reader) = trace(&format!(
        "{CALL}(T + 100, 10, 1, 10, 11, 2, 112, 7, 10, 0), (T + 200, 10, 1, 10, 11, 2, 112, 7, 10, 0),
         (T + 300, 10, 1, 10, 11, 2, 999, 7, 10, 0), (T + 400, 10, 1, 55, 55, 2, 112, 7, 10, 0),
         (T + 500, 90, 2, 10, 11, 2, 112, NULL, 90, 0);
         INSERT INTO kernels (pid, handle, name) VALUES (10, '0x7', 'gemm');"
    ));
    let events = chrome(&reader);
    assert_eq!(arrows(&events), ["10/11 200 > 10/11 500"]);
    assert!(
        events.iter().any(|event| event["args"]["kernel"] == "gemm" && event["args"]["stream"] == "0x70")
    );
}

#[test]
fn the_rank_that_comes_last_points_at_the_others_end() {
    let row = |start: u64, pid: u32, rank: u32, done: &str| {
        format!("(T + {start}, 10, 'ALL_REDUCE', {pid}, {pid}, {rank}, 3, '0xab', 1, {done})")
    };
    let (_folder, reader) = trace(&format!(
        "INSERT INTO nccl_events (timestamp_ns, duration_ns, op, pid, tid, rank, nranks, comm_id_hash, seq, completed_ns) VALUES {}, {}, {};",
        row(100, 1, 0, "T + 1000"),
        row(800, 2, 1, "T + 990"),
        row(300, 3, 2, "T + 1010"),
    ));
    let events = chrome(&reader);
    let arrows: Vec<String> = events
        .iter()
        .filter(|event| event["ph"] == "f")
        .map(|event| format!("{} {}", event["pid"], event["ts"].as_f64().unwrap() * 1e3))
        .collect();
    assert_eq!(arrows, ["1 1000", "3 1010"]);
    let from = events.iter().find(|event| event["ph"] == "s").unwrap();
    assert_eq!((&from["pid"], &from["tid"], from["ts"].as_f64()), (&2.into(), &2.into(), Some(0.8)));
    let spans: Vec<String> = shown(&events, "X")
        .into_iter()
        .filter(|slice| !slice.contains("+10"))
        .map(|slice| slice[slice.rfind(' ').unwrap()..].into())
        .collect();
    assert_eq!(spans, [" 100+900", " 300+710", " 800+190"], "on the ranks' own tracks");
}

#[test]
fn slices_that_cross_get_a_line_of_their_own() {
    let (_folder, reader) = trace(&format!(
        "{CALL}(T + 100, 100, 1, 10, 11, 2, NULL, NULL, 100, 0); {WAIT}(T + 150, 100, 'other', 10, 11, NULL, NULL, NULL);"
    ));
    let events = chrome(&reader);
    let tids: Vec<&Value> =
        events.iter().filter(|event| event["ph"] == "X").map(|event| &event["tid"]).collect();
    assert_eq!(tids[0], 11);
    assert_ne!(tids[1], 11);
    let line =
        events.iter().find(|event| event["name"] == "thread_name" && event["tid"] == *tids[1]).unwrap();
    assert_eq!(line["pid"], 10);
}

#[test]
fn what_has_no_thread_is_shown_beside_its_process_or_by_itself() {
    let (_folder, reader) = trace(
        "INSERT INTO gpu_errors (timestamp_ns, event, gpu, code) VALUES (T + 5, 'xid', 0, 79);
         INSERT INTO annotations (timestamp_ns, duration_ns, event, value, pid) VALUES (T + 1, 50, 'step', '7', 10);",
    );
    let events = chrome(&reader);
    assert_eq!(shown(&events, "i").len(), 1);
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["gpuwhy", "annotation events", "gpu events"]);
}

/// A thread is listed under the name it was born with; whoever it wakes knows the one it gave itself.
#[test]
fn a_thread_has_the_name_it_gave_itself() {
    let (_folder, reader) = trace(&format!(
        "{CALL}(T + 1000, 5000, 1, 10, 11, 2, NULL, NULL, 2000, 3000); {WAIT}(T + 2000, 3000, 'futex', 10, 10, 10, 11, 'pt_autograd_0'),
         (T + 9000, 3000, 'futex', 10, 10, 10, 11, 'python');
         INSERT INTO processes (pid, start_ns, comm) VALUES (10, 1, 'python');
         INSERT INTO threads (pid, tid, comm) VALUES (10, 10, 'python'), (10, 11, 'python');"
    ));
    let events = chrome(&reader);
    let mut names: Vec<(u64, &str)> = events
        .iter()
        .filter(|event| event["name"] == "thread_name" && event["pid"] == 10)
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [(10, "python"), (11, "pt_autograd_0")]);
}
