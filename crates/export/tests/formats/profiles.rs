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
            "a:b 10;(no stack);cudaStreamSynchronize;[gpu.wait] 30",
            "a:b 10;(no stack);ncclAllReduce;[cpu.self] 5",
            "a:b 10;step (train.py:41);launch (x.c:9);cuLaunchKernel;[cpu.preempted] 40",
            "a:b 10;step (train.py:41);launch (x.c:9);cuLaunchKernel;[cpu.self] 110",
            "process 20;[libblas.so.3];cuLaunchKernel;[cpu.self] 4",
            "process 20;[libblas.so.3];cuLaunchKernel;[lock.futex] 3",
            // What no part tells of.
            "process 20;[libblas.so.3];cuLaunchKernel;[unknown] 2",
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
