//! Questions about the GPU's work: collectives, graphs, kernels, copies, streams, first and endless calls.

use crate::made::{SECOND, START, call, columns, processes, refused, rows, trace_of, trace_of_facts};
use gpuwhy_model::{
    Batch, Call, CallInFlight, ColdStart, Collective, CollectiveWait, CopyWindow, Direction, Facts, Frame,
    FrameKind, GpuTime, Graph, GraphNode, Kernel, OpId, Stack,
};
use serde_json::json;

fn collective(second: u64, pid: u32, rank: i32, hash: Option<u64>) -> Collective {
    Collective {
        call: call(second, 3, pid),
        event: "ALL_REDUCE".into(),
        comm: 0xc0,
        comm_id_hash: hash,
        rank: Some(rank),
        nranks: Some(4),
        seq: Some(second),
        count: Some(10),
        bytes: Some(40),
        datatype: None,
        reduce_op: None,
        peer: None,
        grouped: false,
    }
}

#[test]
fn collectives_are_summed_by_communicator_or_rank() {
    let mut collectives: Vec<_> = (0..10)
        .flat_map(|second| [10, 20].map(|pid| collective(second, pid, pid as i32 / 10, Some(0xab))))
        .collect();
    collectives.push(collective(50, 10, 0, None));
    let failed = Call { ret: 3, ..call(51, 3, 10) };
    collectives.push(Collective {
        call: failed,
        event: "BROADCAST".into(),
        ..collective(51, 10, 1, Some(0xab))
    });
    let wait = |second, pid, wait_ns| CollectiveWait {
        pid,
        tid: pid + 1,
        start_ns: START + second * SECOND,
        completed_ns: START + second * SECOND + wait_ns,
        wait_ns,
        waited_in: OpId(6),
    };
    let collective_waits = vec![wait(0, 10, 1000), wait(1, 10, 3000), wait(0, 20, 8000)];
    let (_folder, reader) = trace_of_facts(&Facts { collectives, collective_waits, ..Facts::default() });
    let all = rows(&reader, "collectives", json!({}));
    assert_eq!(
        all[0],
        json!({"comm_id_hash": "0xab", "comm": null, "pid": null, "op": "ALL_REDUCE", "nranks": 4, "ranks_seen": 2,
               "calls": 20, "bytes": 800, "last_seq": 9, "errors": 0, "mean_us": 1.0, "max_us": 1.0,
               "mean_wait_us": 4.0, "max_wait_us": 8.0})
    );
    assert_eq!(
        columns(&all[1..], &["comm_id_hash", "comm", "pid", "op", "errors"]),
        json!([[null, "0xc0", 10, "ALL_REDUCE", 0], ["0xab", null, null, "BROADCAST", 1]])
    );
    let ranks = rows(
        &reader,
        "collectives",
        json!({"per_rank": true, "communicator": "0xab", "op": "ncclAllReduce"}),
    );
    assert_eq!(
        columns(&ranks, &["rank", "pid", "op", "calls", "mean_wait_us"]),
        json!([
            [2, 20, "ALL_REDUCE", 10, 8.0],
            [1, 10, "ALL_REDUCE", 10, 2.0],
            [1, 10, "BROADCAST", 1, null]
        ])
    );
    let by_event =
        rows(&reader, "collectives", json!({"per_rank": true, "communicator": "0xab", "op": "ALL_REDUCE"}));
    assert_eq!(by_event, ranks[..2]);
    assert_eq!(columns(&rows(&reader, "collectives", json!({"since": "1s"})), &["calls"]), json!([[1], [1]]));
    assert_eq!(
        refused(&reader, "collectives", json!({"pid": 77, "since": "1m"})),
        "the trace has no collectives of process 77 in the last 1m; trace while a process uses NCCL"
    );
}

fn graph(pid: u32, handle: u64, launches: u64, destroyed_ns: Option<u64>) -> Graph {
    Graph {
        pid,
        graph: handle,
        exec: Some(handle + 1),
        created_ns: START,
        capture_ns: Some(2_000_000),
        nodes: Some(3),
        kernels: Some(2),
        updates: 1,
        launches,
        launch_ns: launches * 5000,
        destroyed_ns,
        ..Graph::default()
    }
}

fn kernel(pid: u32, handle: u64, name: &str, launches: u64, launch_ns: u64) -> Kernel {
    Kernel {
        pid,
        handle,
        name: name.into(),
        first_ns: START + handle * SECOND,
        launches,
        launch_ns,
        ..Kernel::default()
    }
}

#[test]
fn graphs_and_kernels_come_with_their_launches() {
    let node = |node, handle| GraphNode {
        pid: 10,
        graph: 0x20,
        created_ns: START,
        node,
        kind: "kernel".into(),
        handle,
        ..GraphNode::default()
    };
    let facts = Facts {
        graphs: vec![graph(10, 0x20, 4, None), graph(20, 0x30, 9, Some(START + SECOND))],
        graph_nodes: vec![node(0, 1), node(1, 1), node(2, 2)],
        kernels: vec![
            kernel(10, 1, "gemm", 10, 50_000),
            kernel(10, 2, "relu", 11, 20_000),
            kernel(20, 90, "", 1, 1000),
        ],
        // What makes the newest event.
        cold_starts: vec![cold(100, "jit", 1)],
        ..Facts::default()
    };
    let (_folder, reader) = trace_of_facts(&facts);
    let graphs = rows(&reader, "graphs", json!({}));
    assert_eq!(
        columns(&graphs, &["pid", "process", "graph", "launches"]),
        json!([[20, "server", "0x30", 9], [10, "python", "0x20", 4]])
    );
    assert_eq!(
        columns(
            &graphs[1..],
            &["exec", "nodes", "kernels", "updates", "launch_ms", "mean_launch_us", "capture_ms"]
        ),
        json!([["0x21", 3, 2, 1, 0.02, 5.0, 2.0]])
    );
    assert_eq!(columns(&rows(&reader, "graphs", json!({"since": "10s"})), &["graph"]), json!([["0x20"]]));
    assert!(
        refused(&reader, "graphs", json!({"pid": 20, "since": "10s"})).contains("no graphs of process 20")
    );
    let kernels = rows(&reader, "kernels", json!({}));
    assert_eq!(
        columns(&kernels, &["pid", "kernel", "launches", "in_graphs", "launch_ms", "mean_launch_us"]),
        json!([
            [10, "gemm", 10, 8, 0.05, 5.0],
            [10, "relu", 11, 4, 0.02, 20.0 / 11.0],
            [20, "0x5a", 1, 0, 0.001, 1.0]
        ])
    );
    let most = rows(&reader, "kernels", json!({"by": "launches", "limit": 1}));
    assert_eq!(columns(&most, &["kernel"]), json!([["gemm"]]));
    assert_eq!(columns(&rows(&reader, "kernels", json!({"since": "20s"})), &["kernel"]), json!([["0x5a"]]));
    assert!(refused(&reader, "kernels", json!({"pid": 77})).contains("no kernels of process 77"));
}

#[test]
fn copies_are_told_by_direction_with_their_rate() {
    let copy = |second, pid, direction, bytes| CopyWindow {
        window_start_ns: START + second * SECOND,
        window_ns: SECOND,
        pid,
        cgroup_id: u64::from(pid) + 1,
        direction,
        count: 2,
        bytes,
        sum_ns: 1000,
        errors: 0,
    };
    let copies = vec![
        copy(0, 10, Direction::HostToDevice, 30_000),
        copy(1, 10, Direction::HostToDevice, 10_000),
        copy(1, 10, Direction::DeviceToHost, 500),
        copy(9, 20, Direction::Peer, 90_000),
    ];
    let (_folder, reader) = trace_of_facts(&Facts { copies, ..Facts::default() });
    let all = rows(&reader, "copies", json!({}));
    assert_eq!(
        all[1],
        json!({"pid": 10, "process": "python", "cgroup_id": 11, "cgroup": "/job", "direction": "host_to_device", "count": 4,
               "bytes": 40_000, "host_ms": 0.002, "gb_per_s": 20.0, "errors": 0})
    );
    assert_eq!(columns(&all, &["direction"]), json!([["peer"], ["host_to_device"], ["device_to_host"]]));
    assert_eq!(rows(&reader, "copies", json!({"since": "1s"})).len(), 1);
    assert!(
        refused(&reader, "copies", json!({"pid": 10, "since": "1s"})).contains("no copies of process 10")
    );
}

#[test]
fn streams_are_busy_between_two_bounds() {
    let time = |second, pid, stream, lower: u64, upper: u64| GpuTime {
        window_start_ns: START + second * SECOND,
        window_ns: SECOND,
        pid,
        stream,
        stream_tid: 0,
        submitted: 5,
        launches: 4,
        launch_ns: 8000,
        busy_lower_ns: lower * SECOND / 10,
        busy_upper_ns: upper * SECOND / 10,
    };
    let gpu_times = vec![time(0, 10, 0x70, 2, 8), time(1, 10, 0x70, 2, 10), time(3, 20, 0, 1, 2)];
    let (_folder, reader) = trace_of_facts(&Facts { gpu_times, ..Facts::default() });
    let all = rows(&reader, "gpu_time", json!({}));
    assert_eq!(
        all[0],
        json!({"pid": 10, "process": "python", "stream": "0x70", "stream_tid": null, "busy_lower_ns": 400_000_000,
               "busy_upper_ns": 1_800_000_000, "busy_lower_pct": 10.0, "busy_upper_pct": 45.0, "submitted": 10,
               "launches": 8, "launch_ms": 0.016, "mean_launch_us": 2.0, "window_ns": 4_000_000_000_u64})
    );
    // The same time for all processes, whoever is asked for.
    let other = rows(&reader, "gpu_time", json!({"pid": 20}));
    assert_eq!(columns(&other, &["stream", "busy_upper_pct"]), json!([[null, 5.0]]));
    let late = rows(&reader, "gpu_time", json!({"since": "2s"}));
    assert_eq!(columns(&late, &["pid", "window_ns"]), json!([[10, 3 * SECOND], [20, 3 * SECOND]]));
    assert!(refused(&reader, "gpu_time", json!({"pid": 77})).contains("no GPU time of process 77"));
}

fn cold(second: u64, event: &str, duration_ns: u64) -> ColdStart {
    ColdStart {
        start_ns: START + second * SECOND,
        duration_ns,
        event: event.into(),
        op: OpId(1),
        pid: 10,
        tid: 11,
        cgroup_id: 0,
        name: "gemm".into(),
        bytes: 0,
        ret: 0,
        stack_id: None,
    }
}

#[test]
fn cold_starts_come_longest_first() {
    let cold_starts =
        vec![cold(1, "context", 5_000_000), cold(2, "jit", 9_000_000), cold(9, "first_launch", 1)];
    let (_folder, reader) = trace_of_facts(&Facts { cold_starts, ..Facts::default() });
    let all = rows(&reader, "coldstart", json!({}));
    assert_eq!(
        columns(&all, &["event", "ms", "op", "process", "name"]),
        json!([
            ["jit", 9.0, "cuLaunchKernel", "python", "gemm"],
            ["context", 5.0, "cuLaunchKernel", "python", "gemm"],
            ["first_launch", 1e-6, "cuLaunchKernel", "python", "gemm"],
        ])
    );
    assert_eq!(rows(&reader, "coldstart", json!({"event": "context", "pid": 10})).len(), 1);
    assert_eq!(rows(&reader, "coldstart", json!({"since": "3s"})).len(), 1);
    assert!(refused(&reader, "coldstart", json!({"event": "module_load"})).contains("no cold starts"));
}

#[test]
fn calls_that_have_not_returned_come_first() {
    let call = |tid, seen, ended: Option<u64>| CallInFlight {
        start_ns: START,
        pid: 10,
        tid,
        op: OpId(3),
        stream: 0,
        handle: 0xc0,
        comm_id_hash: Some(0xab),
        rank: Some(1),
        nranks: Some(4),
        seq: Some(9),
        seen_ns: START + seen * SECOND,
        ended_ns: ended.map(|second| START + second * SECOND),
        stack_id: (tid == 3).then_some(5),
        line: None,
    };
    let in_flight = vec![call(1, 50, Some(60)), call(2, 5, None), call(3, 7, None)];
    let frame = |function: &str, line| Frame {
        kind: FrameKind::Python,
        function: Some(function.into()),
        file: Some("/job/train.py".into()),
        line: Some(line),
        ..Frame::default()
    };
    let stack = Stack {
        stack_id: 5,
        pid: 10,
        frames: vec![frame("forward", 142), frame("main", 9)],
        ..Stack::default()
    };
    let (_folder, reader) = trace_of(
        &Batch { processes: processes(), stacks: vec![stack], ..Batch::default() },
        &Facts { in_flight, cold_starts: vec![cold(60, "jit", 1)], ..Facts::default() },
    );
    let all = rows(&reader, "in_flight", json!({}));
    assert_eq!(columns(&all, &["line"]), json!([["/job/train.py:142 forward"], [null], [null]]));
    assert_eq!(
        columns(&all, &["tid", "op", "lasted_ms", "lasts", "comm_id_hash", "rank", "seq", "handle"]),
        json!([
            [3, "ncclAllReduce", 7000.0, 1, "0xab", 1, 9, "0xc0"],
            [2, "ncclAllReduce", 5000.0, 1, "0xab", 1, 9, "0xc0"],
            [1, "ncclAllReduce", 60_000.0, 0, "0xab", 1, 9, "0xc0"],
        ])
    );
    assert_eq!(rows(&reader, "in_flight", json!({"since": "20s"})).len(), 1);
    assert!(
        refused(&reader, "in_flight", json!({"pid": 77})).contains("of process 77; every call returned soon")
    );
}
