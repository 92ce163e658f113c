//! What a fleet is told of ranks, from batches whose truth is known.

use gpuwhy_metrics::otlp::{Request, Resource};
use gpuwhy_metrics::ranks::{Ranks, Report};
use gpuwhy_model::{
    Batch, BetweenCalls, BlameRow, Call, CallWindow, Cause, Collective, CollectiveWait, Facts, Family, Layer,
    OpId, OpInfo, Part, Process, Reason, Role, TcpEvent,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use std::collections::BTreeMap;

const HALF: u64 = 500_000_000;
const REDUCE: OpId = OpId(1);
const SYNC: OpId = OpId(2);
const LAUNCH: OpId = OpId(3);

fn ops() -> Vec<OpInfo> {
    let op = |id, name: &str, layer, family, waits_for_gpu| OpInfo {
        id,
        name: name.into(),
        layer,
        family,
        waits_for_gpu,
        role: Role::default(),
    };
    vec![
        op(REDUCE, "ncclAllReduce", Layer::Nccl, Family::Collective, false),
        op(SYNC, "cudaStreamSynchronize", Layer::Cuda, Family::Sync, true),
        op(LAUNCH, "cuLaunchKernel", Layer::Cuda, Family::Launch, false),
    ]
}

fn window(start_ns: u64, pid: u32, op: OpId, count: u64, sum_ns: u64) -> CallWindow {
    CallWindow {
        window_start_ns: start_ns,
        window_ns: HALF,
        pid,
        tid: pid,
        op,
        direction: None,
        count,
        errors: 0,
        kept: 0,
        bytes: 0,
        sum_ns,
        min_ns: 0,
        max_ns: 0,
        blame: Default::default(),
        hist: Default::default(),
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    }
}

fn process(pid: u32, rank: i32) -> Process {
    Process { pid, rank: Some(rank), world_size: Some(2), job_id: Some("7".into()), ..Process::default() }
}

/// Points of a rank by metric, those of blame by metric and class.
fn points(report: &Report, rank: i64) -> BTreeMap<String, f64> {
    let mut points = BTreeMap::new();
    for request in &report.requests {
        let Request::Metrics(request) = request else { continue };
        for metric in request.resource_metrics.iter().flat_map(|r| &r.scope_metrics).flat_map(|s| &s.metrics)
        {
            let Some(Data::Gauge(gauge)) = &metric.data else { panic!("{metric:?}") };
            for point in &gauge.data_points {
                let get = |key: &str| {
                    let pair = point.attributes.iter().find(|pair| pair.key == key)?;
                    pair.value.clone()?.value
                };
                if get("rank") != Some(Value::IntValue(rank)) {
                    continue;
                }
                assert_eq!(get("job_id"), Some(Value::StringValue("7".into())));
                let class = match get("class") {
                    Some(Value::StringValue(class)) => format!(" {class}"),
                    _ => String::new(),
                };
                let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
                points.insert(format!("{}{class}", metric.name), value);
            }
        }
    }
    points
}

/// Rank 1 computes for all of its time, rank 0 waits for it a fifth of the time: the step is the same for both.
#[test]
fn the_rank_others_wait_for_has_no_time_to_spare() {
    let mut ranks = Ranks::new(&ops());
    let mut batch = Batch { processes: vec![process(10, 0), process(11, 1)], ..Batch::default() };
    for start in [0, HALF] {
        batch.windows.push(window(start, 10, REDUCE, 5, 5_000));
        batch.windows.push(window(start, 10, SYNC, 5, HALF / 5));
        batch.windows.push(window(start, 11, REDUCE, 5, 5_000));
        batch.windows.push(window(start, 10, LAUNCH, 500, 1_000_000));
    }
    let blame = BlameRow {
        window_start_ns: 0,
        pid: 11,
        tid: 11,
        op: LAUNCH,
        cause: Cause::CpuPreempted,
        by_pid: 9,
        by_tid: 9,
        by_comm: "hog".into(),
        by_cgroup_id: 0,
        ns: HALF / 2,
        count: 3,
    };
    ranks.take(&batch, &Facts { blame: vec![blame], ..Facts::default() });
    let report = ranks.report(2 * HALF, &Resource::new("host", &[]));
    let (waiter, straggler) = (points(&report, 0), points(&report, 1));
    let close = |reported: &BTreeMap<String, f64>, name: &str, expected: f64| {
        let value = reported.get(name).unwrap_or_else(|| panic!("no {name}: {reported:?}"));
        assert!((value - expected).abs() < 1e-3, "{name} {value}, not {expected}");
    };
    for reported in [&waiter, &straggler] {
        close(reported, "gpuwhy.rank.step_seconds", 0.1);
    }
    close(&waiter, "gpuwhy.rank.own_seconds", 0.08);
    close(&straggler, "gpuwhy.rank.own_seconds", 0.1);
    close(&waiter, "gpuwhy.rank.health", 0.2);
    close(&straggler, "gpuwhy.rank.health", 0.0);
    close(&waiter, "gpuwhy.rank.launch_rate", 1_000.0);
    close(&straggler, "gpuwhy.rank.blame_ratio cpu.preempted", 0.25);
    assert_eq!(report.healths.len(), 2);
    let silent = ranks.report(3 * HALF, &Resource::new("host", &[]));
    assert!(silent.requests.is_empty(), "nothing is told twice: {silent:?}");
}

/// Programs that only ask for the driver's version are no ranks.
#[test]
fn a_process_that_does_no_work_is_not_told() {
    let mut other = ops();
    other.push(OpInfo { id: OpId(4), name: "cuInit".into(), family: Family::Load, ..other[2].clone() });
    let mut ranks = Ranks::new(&other);
    let batch = Batch { windows: vec![window(0, 10, OpId(4), 1, 1_000)], ..Batch::default() };
    ranks.take(&batch, &Facts::default());
    let report = ranks.report(2 * HALF, &Resource::new("host", &[]));
    assert!(report.requests.is_empty(), "{report:?}");
}

/// A wait that lasted three windows is counted in the last of them.
#[test]
fn a_long_wait_is_nobodys_own_time() {
    let mut ranks = Ranks::new(&ops());
    let resource = Resource::new("host", &[]);
    let mut own = Vec::new();
    for second in 0..4 {
        let start = second * HALF;
        let mut batch = Batch::default();
        if second == 0 {
            batch.processes = vec![process(10, 0)];
        }
        batch.windows.push(window(start, 10, REDUCE, 1, 0));
        batch.windows.push(window(start, 10, SYNC, 1, if second == 1 { 2 * HALF } else { 0 }));
        ranks.take(&batch, &Facts::default());
        own.push(points(&ranks.report(start + HALF, &resource), 0)["gpuwhy.rank.own_seconds"]);
    }
    assert_eq!(own, [0.5, 0.0, 0.0, 0.5]);
}

fn collective(pid: u32, seq: u64, start_ns: u64) -> Collective {
    Collective {
        call: Call { start_ns, duration_ns: 1_000, op: REDUCE, pid, tid: pid, ..Call::default() },
        event: "ALL_REDUCE".into(),
        comm: 1,
        comm_id_hash: Some(0xabc),
        rank: Some(0),
        nranks: Some(2),
        seq: Some(seq),
        count: Some(1024),
        bytes: Some(4096),
        datatype: Some("float32".into()),
        reduce_op: Some("sum".into()),
        peer: None,
        grouped: false,
    }
}

/// By their number: whether it was told to be done.
fn reported_collectives(report: &Report) -> Vec<(i64, Option<i64>)> {
    let mut reported = Vec::new();
    for request in &report.requests {
        let Request::Logs(request) = request else { continue };
        for record in request.resource_logs.iter().flat_map(|r| &r.scope_logs).flat_map(|s| &s.log_records) {
            if record.event_name != "gpuwhy.collectives" {
                continue;
            }
            let Some(Value::ArrayValue(list)) = record.body.clone().and_then(|body| body.value) else {
                panic!("{record:?}")
            };
            for entry in list.values {
                let Some(Value::KvlistValue(fields)) = entry.value else { panic!("{record:?}") };
                let get = |key: &str| {
                    let value = fields.values.iter().find(|pair| pair.key == key)?.value.clone()?.value?;
                    match value {
                        Value::IntValue(number) => Some(number),
                        _ => None,
                    }
                };
                reported.extend(get("seq").map(|seq| (seq, get("duration_ns"))));
            }
        }
    }
    reported
}

/// A call returns long before the collective is done: its end is when a wait for it ended.
#[test]
fn collectives_are_told_when_they_are_done_or_take_long() {
    let mut ranks = Ranks::new(&ops());
    let resource = Resource::new("host", &[]);
    let second = 1_000_000_000;
    let mut facts =
        Facts { collectives: vec![collective(10, 1, 0), collective(10, 2, 100)], ..Facts::default() };
    let done = |start_ns, completed_ns| CollectiveWait {
        pid: 10,
        tid: 10,
        start_ns,
        completed_ns,
        wait_ns: 1,
        waited_in: SYNC,
    };
    facts.collective_waits = vec![done(0, 5_000)];
    ranks.take(&Batch::default(), &facts);
    assert_eq!(reported_collectives(&ranks.report(second, &resource)), [(1, Some(5_000))]);
    assert_eq!(reported_collectives(&ranks.report(2 * second, &resource)), [(2, None)], "it takes long");
    assert_eq!(reported_collectives(&ranks.report(3 * second, &resource)), [], "told once");
    facts = Facts { collective_waits: vec![done(100, 3 * second)], ..Facts::default() };
    ranks.take(&Batch::default(), &facts);
    let again = reported_collectives(&ranks.report(4 * second, &resource));
    assert_eq!(again, [(2, Some(3 * second as i64 - 100))], "and again when it is done");
}

/// Who sends to whom tells stages of a pipeline apart from peers.
#[test]
fn messages_are_told_with_their_peer() {
    let mut ranks = Ranks::new(&ops());
    let message = Collective { event: "SEND".into(), seq: None, peer: Some(1), ..collective(10, 0, 0) };
    let other = Collective { event: "COMM_INIT_RANK".into(), seq: None, ..collective(10, 0, 50) };
    let done =
        CollectiveWait { pid: 10, tid: 10, start_ns: 0, completed_ns: 700, wait_ns: 1, waited_in: SYNC };
    let facts = Facts { collectives: vec![message, other], collective_waits: vec![done], ..Facts::default() };
    ranks.take(&Batch::default(), &facts);
    let report = format!("{:?}", ranks.report(2_000_000_000, &Resource::new("host", &[])));
    assert!(report.contains("SEND") && report.contains("\"peer\""), "{report}");
    assert!(!report.contains("COMM_INIT_RANK"), "{report}");
}

/// Two ranks on two hosts must leave out the same ones.
#[test]
fn of_very_many_collectives_all_ranks_tell_the_same_numbers() {
    let reported = |shift: u64| {
        let mut ranks = Ranks::new(&ops());
        let all: Vec<Collective> = (1..=9_000).map(|seq| collective(10, seq, seq * 1_000 + shift)).collect();
        let waits = all.iter().map(|one| CollectiveWait {
            pid: 10,
            tid: 10,
            start_ns: one.call.start_ns,
            completed_ns: one.call.start_ns + 500,
            wait_ns: 1,
            waited_in: SYNC,
        });
        let facts = Facts { collective_waits: waits.collect(), collectives: all, ..Facts::default() };
        ranks.take(&Batch::default(), &facts);
        let report = ranks.report(60_000_000_000, &Resource::new("host", &[]));
        reported_collectives(&report).into_iter().map(|(seq, _)| seq).collect::<Vec<i64>>()
    };
    let (one, other) = (reported(0), reported(77));
    assert!(one.len() > 1_000 && one.len() <= 2_000, "{}", one.len());
    assert_eq!(one, other);
}

fn waited(cause: Cause, ns: u64) -> BlameRow {
    BlameRow {
        window_start_ns: 0,
        pid: 10,
        tid: 10,
        op: OpId(0),
        cause,
        by_pid: 0,
        by_tid: 0,
        by_comm: String::new(),
        by_cgroup_id: 0,
        ns,
        count: 1,
    }
}

/// A rank waits for a batch from 0.3 s to 2.7 s, for segments that are lost: that is told while it waits, and each moment once.
#[test]
fn what_a_rank_waits_in_is_told_before_it_is_over() {
    const SECOND: u64 = 2 * HALF;
    let mut ranks = Ranks::new(&ops());
    let resource = Resource::new("host", &[]);
    let work = |start_ns| vec![window(start_ns, 10, REDUCE, 5, 0), window(start_ns, 10, LAUNCH, 5, 0)];
    let seen = |at_ns| BetweenCalls {
        time_ns: at_ns,
        pid: 10,
        tid: 10,
        since_ns: 3 * SECOND / 10,
        part: Part::Blocked(Reason::Socket),
        last_call_ns: 1,
        op: OpId::NONE,
        weight_ns: 0,
        stack_id: None,
        thread_pointer: 0,
    };
    let again = |at_ns| TcpEvent { time_ns: at_ns, pid: 10, ..TcpEvent::default() };
    let begin = Batch {
        processes: vec![process(10, 0)],
        windows: [work(0), work(HALF)].concat(),
        between_calls: vec![seen(SECOND)],
        tcp_events: vec![again(SECOND / 2), again(9 * SECOND / 10)],
        ..Batch::default()
    };
    let meanwhile = Batch {
        between_calls: vec![seen(2 * SECOND)],
        tcp_events: vec![again(17 * SECOND / 10)],
        ..Batch::default()
    };
    let end = Batch { windows: [work(5 * HALF), work(6 * HALF)].concat(), ..Batch::default() };
    let whole = Facts { blame: vec![waited(Cause::NetWait, 24 * SECOND / 10)], ..Facts::default() };
    let mut reported = Vec::new();
    for (second, (batch, facts)) in
        [(begin, Facts::default()), (meanwhile, Facts::default()), (end, whole)].iter().enumerate()
    {
        ranks.take(batch, facts);
        let points = points(&ranks.report((second as u64 + 1) * SECOND, &resource), 0);
        reported
            .push(["net.tcp", "net.wait", "cpu.self"].map(|class| {
                points.get(&format!("gpuwhy.rank.blame_ratio {class}")).copied().unwrap_or(0.0)
            }));
    }
    let expected = [[0.7, 0.0, 0.3], [1.0, 0.0, 0.0], [0.2, 0.5, 0.3]];
    for (reported, expected) in reported.iter().flatten().zip(expected.iter().flatten()) {
        assert!((reported - expected).abs() < 1e-6, "{reported:?}");
    }
}

/// Of threads that nobody meets, a wait of 1.7 s in a second is told in two.
#[test]
fn no_more_than_the_time_there_was_is_told() {
    let mut ranks = Ranks::new(&ops());
    let resource = Resource::new("host", &[]);
    let mut reported = Vec::new();
    for second in 0..3 {
        let start = second * 2 * HALF;
        let mut batch = Batch { processes: vec![process(10, 0)], ..Batch::default() };
        batch.windows = vec![window(start, 10, REDUCE, 1, 0), window(start + HALF, 10, REDUCE, 1, 0)];
        let row = (second == 0).then(|| waited(Cause::IoBlock, 17 * HALF / 5));
        ranks.take(&batch, &Facts { blame: row.into_iter().collect(), ..Facts::default() });
        let points = points(&ranks.report(start + 2 * HALF, &resource), 0);
        reported.push(points.get("gpuwhy.rank.blame_ratio io.block").copied().unwrap_or(0.0));
    }
    assert!(
        reported.iter().zip([1.0, 0.7, 0.0]).all(|(reported, expected)| (reported - expected).abs() < 1e-9),
        "{reported:?}"
    );
}
