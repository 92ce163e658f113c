//! Collectives: each once, by either of its names, and completed when somebody has waited for it.

use crate::made::{START, lines, plain, trace, writer};
use gpuwhy_model::{Batch, Blame, Call, Collective, CollectiveWait, Facts, Kept, OpId, Reason};
use gpuwhy_store::{Filter, Limits, Reader};

fn collective(number: u64, op: u16, event: &str) -> Collective {
    let mut blame = Blame { oncpu_ns: 100, runq_ns: 200, ..Blame::default() };
    blame.blocked_ns[Reason::Socket as usize] = 400;
    Collective {
        call: Call {
            op: OpId(op),
            kept: Kept::All,
            stream: 0x70,
            handle: 0xc0,
            caller: 0x401,
            blame,
            ..plain(number)
        },
        event: event.into(),
        comm: 0xc0,
        comm_id_hash: Some(u64::MAX),
        rank: Some(1),
        nranks: Some(8),
        seq: Some(number),
        count: Some(1024),
        bytes: Some(4096),
        datatype: Some("float32".into()),
        reduce_op: Some("sum".into()),
        peer: None,
        grouped: number == 2,
    }
}

fn wait(number: u64, completed_ns: u64) -> CollectiveWait {
    CollectiveWait {
        pid: 10,
        tid: 11,
        start_ns: START + number * 1000,
        completed_ns: START + completed_ns,
        wait_ns: 77,
        waited_in: OpId(4),
    }
}

#[test]
fn a_collective_is_kept_with_all_that_is_known() {
    let unknown = Collective {
        call: plain(9),
        event: "SEND".into(),
        comm: 0,
        comm_id_hash: None,
        rank: None,
        nranks: None,
        seq: None,
        count: None,
        bytes: None,
        datatype: None,
        reduce_op: None,
        peer: Some(3),
        grouped: false,
    };
    let collectives = vec![collective(1, 6, "ALL_REDUCE"), unknown];
    let (_folder, reader) = trace(&Batch::default(), &Facts { collectives, ..Facts::default() });
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, op, function, pid, tid, rank, nranks, comm_id_hash, seq, count, bytes, \
             datatype, reduce_op, peer, stream, comm, ret, kept, grouped, oncpu_ns, runq_ns, blocked_ns, socket_ns, \
             poll_ns, caller, completed_ns FROM nccl_events ORDER BY 1"
        ),
        [
            "+1000|700|ALL_REDUCE|ncclAllReduce|10|11|1|8|0xffffffffffffffff|1|1024|4096|float32|sum|-|0x70|0xc0|0|\
             all|0|100|200|400|400|0|0x401|-",
            "+9000|700|SEND|cudaMalloc|10|11|-|-|-|-|-|-|-|-|3|-|-|0|slow|0|700|0|0|0|0|-|-",
        ]
    );
}

#[test]
fn the_one_that_was_waited_for_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let collectives = (1..=3).map(|number| collective(number, 6, "ALL_REDUCE")).collect();
    // One of them in the same batch, one later, one of a thread that made no such call.
    let collective_waits = vec![wait(1, 5000), CollectiveWait { tid: 99, ..wait(3, 1) }];
    let facts = Facts { collectives, collective_waits, ..Facts::default() };
    writer.write(&Batch::default(), &facts).unwrap();
    writer.commit().unwrap();
    let facts = Facts { collective_waits: vec![wait(2, 9000)], ..Facts::default() };
    writer.write(&Batch::default(), &facts).unwrap();
    writer.finish(1).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        lines(&reader, "SELECT seq, grouped, completed_ns, wait_ns, waited_in FROM nccl_events ORDER BY seq"),
        ["1|0|+5000|77|cudaStreamSynchronize", "2|1|+9000|77|cudaStreamSynchronize", "3|0|-|-|-"]
    );
    let plan = "EXPLAIN QUERY PLAN SELECT 1 FROM nccl_events WHERE timestamp_ns = 5 AND pid = 1 AND tid = 1";
    assert!(lines(&reader, plan)[0].contains("nccl_events_timestamp_ns"));
}

#[test]
fn events_have_each_collective_once_under_both_names() {
    let collectives =
        vec![collective(1, 6, "ALL_REDUCE"), collective(2, 6, "ALL_REDUCE"), collective(3, 7, "SEND")];
    let batch = Batch { calls: vec![plain(4)], ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts { collectives, ..Facts::default() });
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, layer, op, bytes FROM events ORDER BY 1"),
        [
            "+1000|nccl|ALL_REDUCE|4096",
            "+2000|nccl|ALL_REDUCE|4096",
            "+3000|nccl|SEND|4096",
            "+4000|cuda|cudaMalloc|0"
        ]
    );
    assert_eq!(reader.event_count().unwrap(), 4);
    let found = |op: &str, pid, from| {
        let filter = Filter { op: Some(op.into()), pid, from_ns: from, to_ns: None };
        reader.events(&filter, &Limits::default()).unwrap().rows
    };
    let by_event = found("ALL_REDUCE", None, None);
    assert_eq!(by_event.len(), 2);
    assert_eq!(found("ncclAllReduce", None, None), by_event);
    assert_eq!(found("ncclAllReduce", Some(10), Some(START + 1500)), by_event[1..]);
    assert_eq!(found("ncclAllReduce", Some(99), None).len(), 0);
    assert_eq!(found("ncclSend", None, None), found("SEND", None, None));
    assert_eq!(found("ncclRecv", None, None).len(), 0);
}
