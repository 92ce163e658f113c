//! Cold starts, streams, copies, calls in flight.

use crate::made::{START, lines, trace, writer};
use gpuwhy_model::{Batch, CallInFlight, ColdStart, CopyWindow, Direction, Facts, GpuTime, OpId};
use gpuwhy_store::Reader;

#[test]
fn first_times_are_events() {
    let cold = ColdStart {
        start_ns: START + 1,
        duration_ns: 900,
        event: "first_launch".into(),
        op: OpId(1),
        pid: 10,
        tid: 11,
        cgroup_id: 7,
        name: "gemm(float*)".into(),
        bytes: 5,
        ret: 0,
        stack_id: Some(-7),
    };
    let context = ColdStart {
        start_ns: START,
        event: "context".into(),
        op: OpId::NONE,
        name: String::new(),
        ..cold.clone()
    };
    let facts = Facts { cold_starts: vec![cold, context], ..Facts::default() };
    let (_folder, reader) = trace(&Batch::default(), &facts);
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, event, op, pid, tid, cgroup_id, name, bytes, ret, stack_id \
             FROM coldstart_events ORDER BY 1"
        ),
        [
            "+0|900|context|-|10|11|7|-|5|0|-7",
            "+1|900|first_launch|cuLaunchKernel|10|11|7|gemm(float*)|5|0|-7"
        ]
    );
    assert_eq!(
        lines(&reader, "SELECT layer, op, duration_ns, cgroup_id FROM events ORDER BY timestamp_ns"),
        ["coldstart|context|900|7", "coldstart|first_launch|900|7"]
    );
}

#[test]
fn streams_and_copies_are_summed_by_window() {
    let time = GpuTime {
        window_start_ns: START,
        window_ns: 500,
        pid: 10,
        stream: u64::MAX,
        stream_tid: 0,
        submitted: 1,
        launches: 2,
        launch_ns: 3,
        busy_lower_ns: 4,
        busy_upper_ns: 5,
    };
    let own = GpuTime { stream: 0, stream_tid: 11, ..time.clone() };
    let copy = CopyWindow {
        window_start_ns: START,
        window_ns: 500,
        pid: 10,
        cgroup_id: 7,
        direction: Direction::Peer,
        count: 1,
        bytes: 2,
        sum_ns: 3,
        errors: 4,
    };
    let facts = Facts { gpu_times: vec![time, own], copies: vec![copy], ..Facts::default() };
    let (_folder, reader) = trace(&Batch::default(), &facts);
    assert_eq!(
        lines(
            &reader,
            "SELECT window_start_ns, window_ns, pid, stream, stream_tid, submitted, launches, launch_ns, busy_lower_ns, \
             busy_upper_ns FROM gpu_time"
        ),
        ["+0|500|10|0xffffffffffffffff|-|1|2|3|4|5", "+0|500|10|-|11|1|2|3|4|5"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT window_start_ns, window_ns, pid, cgroup_id, direction, count, bytes, sum_ns, errors FROM copy_stats"
        ),
        ["+0|500|10|7|peer|1|2|3|4"]
    );
}

#[test]
fn a_call_in_flight_is_one_row_until_it_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let seen = |seen: u64, ended: Option<u64>| CallInFlight {
        start_ns: START,
        pid: 10,
        tid: 11,
        op: OpId(6),
        stream: 0x70,
        handle: 0xc0,
        comm_id_hash: Some(u64::MAX),
        rank: Some(1),
        nranks: Some(8),
        seq: Some(9),
        seen_ns: START + seen,
        ended_ns: ended.map(|ns| START + ns),
        stack_id: Some(-5),
        line: None,
    };
    let other = CallInFlight {
        tid: 12,
        comm_id_hash: None,
        rank: None,
        seq: None,
        stream: 0,
        stack_id: None,
        ..seen(5, None)
    };
    for in_flight in [vec![seen(5, None), other], vec![seen(6, None)], vec![seen(7, Some(8))]] {
        writer.write(&Batch::default(), &Facts { in_flight, ..Facts::default() }).unwrap();
    }
    writer.finish(1).unwrap();
    assert_eq!(
        lines(
            &Reader::open(&path).unwrap(),
            "SELECT pid, tid, start_ns, op, stream, handle, comm_id_hash, rank, nranks, seq, seen_ns, ended_ns, \
             stack_id FROM calls_in_flight"
        ),
        [
            "10|11|+0|ncclAllReduce|0x70|0xc0|0xffffffffffffffff|1|8|9|+7|+8|-5",
            "10|12|+0|ncclAllReduce|-|0xc0|-|-|8|-|+5|-|-",
        ]
    );
}
