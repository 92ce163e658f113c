//! Calls and nanoseconds by stack, operation and cause.

use crate::made::{bytes, trace};
use gpuwhy_export::Source;
use gpuwhy_store::Filter;

const ROWS: &str = "
    INSERT INTO calls (timestamp_ns, duration_ns, op_id, pid, tid, kept, stack_id, oncpu_ns, runq_ns, futex_ns) VALUES
        (T + 1, 100, 1, 10, 11, 2, 7, 60, 40, NULL), (T + 2, 50, 1, 10, 11, 2, 7, 50, NULL, NULL),
        (T + 3, 30, 2, 10, 11, 2, NULL, 30, NULL, NULL), (T + 4, 9, 1, 20, 20, 2, 8, 4, NULL, 3);
    INSERT INTO nccl_events (timestamp_ns, duration_ns, op, function, pid, tid, oncpu_ns) VALUES (T + 5, 5, 'ALL_REDUCE', 'ncclAllReduce', 10, 11, 5);
    INSERT INTO processes (pid, start_ns, comm) VALUES (10, 1, 'a;b');
    INSERT INTO frames (stack_id, depth, kind, function, file, line, module) VALUES (7, 0, 'native', 'launch', '/src/x.c', 9, '/lib/l.so'),
        (7, 1, 'python', 'step', '/srv/train.py', 41, NULL), (8, 0, 'native', NULL, NULL, NULL, '/lib/libblas.so.3');";

#[test]
fn folded_lines_have_frames_cause_and_nanoseconds() {
    let (_folder, reader) = trace(ROWS);
    let (out, exported) = bytes(&Source::whole(&reader), "folded").unwrap();
    assert_eq!(exported.rows, 5);
    assert_eq!(
        String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(),
        [
            "a:b 10;a:b 11;(no stack);cudaStreamSynchronize;[gpu.wait] 30",
            "a:b 10;a:b 11;(no stack);ncclAllReduce;[cpu.self] 5",
            "a:b 10;a:b 11;step (train.py:41);launch (x.c:9);cuLaunchKernel;[cpu.preempted] 40",
            "a:b 10;a:b 11;step (train.py:41);launch (x.c:9);cuLaunchKernel;[cpu.self] 110",
            "process 20;thread 20;[libblas.so.3];cuLaunchKernel;[cpu.self] 4",
            "process 20;thread 20;[libblas.so.3];cuLaunchKernel;[lock.futex] 3",
            // What no part tells of.
            "process 20;thread 20;[libblas.so.3];cuLaunchKernel;[unknown] 2",
        ]
    );
}

#[test]
fn a_process_or_a_time_alone_is_exported_alone() {
    let (_folder, reader) = trace(ROWS);
    let ns = |filter: Filter| {
        let source = Source { filter, ..Source::whole(&reader) };
        let (out, _) = bytes(&source, "folded").unwrap();
        let out = String::from_utf8(out).unwrap();
        out.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!(ns(Filter { pid: Some(20), ..Filter::default() }), 9);
    assert_eq!(ns(Filter { from_ns: Some(crate::made::START + 3), ..Filter::default() }), 44);
    assert_eq!(ns(Filter { to_ns: Some(crate::made::START + 3), ..Filter::default() }), 150);
}

#[test]
fn speedscope_has_a_profile_for_each_process_whose_weights_are_its_time() {
    let (_folder, reader) = trace(ROWS);
    let (out, _) = bytes(&Source::whole(&reader), "speedscope").unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let ends: Vec<(&str, i64)> = json["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|profile| (profile["name"].as_str().unwrap(), profile["endValue"].as_i64().unwrap()))
        .collect();
    assert_eq!(ends, [("a;b 10", 185), ("process 20", 9)]);
    let frame =
        json["shared"]["frames"].as_array().unwrap().iter().find(|frame| frame["name"] == "step").unwrap();
    assert_eq!((frame["file"].as_str(), frame["line"].as_i64()), (Some("/srv/train.py"), Some(41)));
}

/// Two threads between calls: one waits for a lock at two lines and runs, the other one's waits were never sampled.
const BETWEEN: &str = "
    INSERT INTO processes (pid, start_ns, comm) VALUES (10, 1, 'python3');
    INSERT INTO threads (pid, tid, comm) VALUES (10, 10, 'python3'), (10, 11, 'python3');
    INSERT INTO sched_events (timestamp_ns, duration_ns, event, pid, tid, by_pid, by_tid, by_comm, op) VALUES
        (T + 10, 600, 'futex', 10, 10, 10, 11, 'pt_autograd_0', NULL), (T + 900, 300, 'futex', 10, 10, 10, 11, 'pt_autograd_0', NULL),
        (T + 1500, 70, 'preempted', 10, 10, 99, 99, 'hog', NULL), (T + 2000, 400, 'futex', 10, 11, 10, 10, 'python3', NULL),
        (T + 2500, 999, 'futex', 10, 10, NULL, NULL, NULL, 'cuLaunchKernel');
    INSERT INTO io_events (timestamp_ns, duration_ns, event, pid, tid) VALUES (T + 3000, 50, 'block_io', 10, 10), (T + 3000, 5000, 'request', 10, 10);
    INSERT INTO wait_samples (timestamp_ns, pid, tid, since_ns, reason, stack_id, weight_ns) VALUES
        (T + 20, 10, 10, T + 10, 'futex', 1, 20), (T + 910, 10, 10, T + 900, 'futex', 2, 10), (T + 930, 10, 10, T + 930, 'on_cpu', 2, 77);
    INSERT INTO cpu_samples (timestamp_ns, pid, tid, op, stack_id, weight_ns, kernel, gc) VALUES
        (T + 700, 10, 10, NULL, 2, 100, 0, NULL), (T + 750, 10, 10, NULL, 2, 100, 0, 1), (T + 800, 10, 10, 'cuLaunchKernel', 2, 100, 0, NULL);
    INSERT INTO frames (stack_id, depth, kind, function, file, line) VALUES (1, 0, 'python', 'get', 'queue.py', 5), (2, 0, 'python', 'step', 'train.py', 9);";

/// Waits have their clocked time, divided among the lines as the samples were; what was within a call is the call's.
#[test]
fn waits_between_calls_and_running_code_are_in_every_profile_to_the_nanosecond() {
    let (_folder, reader) = trace(BETWEEN);
    let (out, _) = bytes(&Source::whole(&reader), "folded").unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(),
        [
            "python3 10;pt_autograd_0 11;(no stack);waits: futex;[lock.futex] 400",
            "python3 10;python3 10;(no stack);waits: block_io;[io.block] 50",
            "python3 10;python3 10;(no stack);waits: its CPU;[cpu.preempted] 70",
            "python3 10;python3 10;get (queue.py:5);waits: futex;[lock.futex] 600",
            "python3 10;python3 10;step (train.py:9);runs: garbage collection;[python.gc] 100",
            "python3 10;python3 10;step (train.py:9);runs;[cpu.self] 100",
            "python3 10;python3 10;step (train.py:9);waits: futex;[lock.futex] 300",
        ]
    );
    let (out, _) = bytes(&Source::whole(&reader), "speedscope").unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["profiles"][0]["endValue"], 1620);
    let source = Source {
        filter: Filter { from_ns: Some(crate::made::START + 900), ..Filter::default() },
        ..Source::whole(&reader)
    };
    let (out, _) = bytes(&source, "folded").unwrap();
    let sum: u64 = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    // Of the later half nothing ran; what was met running counts where nothing else tells.
    assert_eq!(sum, 300 + 70 + 400 + 50 + 77);
}
