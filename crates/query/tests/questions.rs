//! Every question, asked of a small trace through the table of endpoints.

#![allow(clippy::unwrap_used)]

use gpuwhy_model::{
    Batch, Blame, BlameRow, Call, CallWindow, Cause, Family, Histogram, Kept, Layer, Loss, OpId, OpInfo,
    Process,
};
use gpuwhy_query::{ENDPOINTS, QueryError, find};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::{Value, json};
use tempfile::TempDir;

const START: u64 = 1_790_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn op(id: u16, name: &str, family: Family) -> OpInfo {
    OpInfo { id: OpId(id), name: name.into(), layer: Layer::Cuda, family, waits_for_gpu: false }
}

fn call(second: u64, op: u16, pid: u32) -> Call {
    Call {
        start_ns: START + second * SECOND,
        duration_ns: 1000,
        op: OpId(op),
        pid,
        tid: pid + 1,
        cgroup_id: 0,
        kept: Kept::Slow,
        sample_weight: 0,
        ret: 0,
        bytes: 0,
        stream: 0,
        handle: 0,
        caller: 0,
        via: None,
        launch: None,
        stack_id: None,
        blame: Blame { oncpu_ns: 1000, ..Blame::default() },
    }
}

fn window(second: u64, op: u16, pid: u32, ns: u64) -> CallWindow {
    let mut hist = Histogram::default();
    for _ in 0..10 {
        hist.record(ns);
    }
    CallWindow {
        window_start_ns: START + second * SECOND,
        window_ns: SECOND,
        pid,
        tid: pid,
        op: OpId(op),
        count: 10,
        errors: 0,
        kept: 1,
        bytes: 0,
        sum_ns: 10 * ns,
        min_ns: ns,
        max_ns: ns,
        blame: Blame { oncpu_ns: 4 * ns, runq_ns: 6 * ns, ..Blame::default() },
        hist,
    }
}

fn billed(second: u64, op: u16, cause: Cause, by: (u32, &str), ns: u64) -> BlameRow {
    BlameRow {
        window_start_ns: START + second * SECOND,
        pid: 10,
        tid: 10,
        op: OpId(op),
        cause,
        by_pid: by.0,
        by_tid: by.0,
        by_comm: by.1.into(),
        ns,
        count: 2,
    }
}

/// A hundred seconds: a launch each by process 10, an allocation each ten by process 20.
fn trace() -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, host: "node-7".into(), ..SessionInfo::default() };
    let ops = [op(1, "cuLaunchKernel", Family::Launch), op(2, "cudaMalloc", Family::Alloc)];
    let mut writer = Writer::create_or_append(&path, &session, &ops, &Options::default()).unwrap();
    let mut batch = Batch {
        losses: vec![Loss {
            start_ns: START,
            end_ns: START + 5,
            probe: "cuda".into(),
            cpu: 0,
            reason: "ring".into(),
            count: 7,
        }],
        processes: vec![Process {
            pid: 10,
            start_ns: START,
            comm: "python".into(),
            rank: Some(1),
            ..Process::default()
        }],
        ..Batch::default()
    };
    for second in 0..100 {
        batch.calls.push(call(second, 1, 10));
        batch.windows.push(window(second, 1, 10, if second < 90 { 1000 } else { 4000 }));
        if second % 10 == 0 {
            batch.calls.push(call(second, 2, 20));
            batch.windows.push(window(second, 2, 20, 50_000));
        }
    }
    let blame = [
        billed(1, 1, Cause::CpuPreempted, (99, "stress"), 3_000_000),
        billed(2, 1, Cause::CpuPreempted, (99, "stress"), 3_000_000),
        billed(3, 1, Cause::CpuSelf, (0, ""), 2_000_000),
        billed(95, 2, Cause::GpuAlloc, (0, ""), 2_000_000),
    ];
    writer.write(&batch, &blame).unwrap();
    writer.finish(START + 100 * SECOND).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

fn ask(reader: &Reader, name: &str, request: Value) -> Result<Value, QueryError> {
    (find(name).unwrap().run)(reader, request)
}

#[test]
fn every_endpoint_answers_or_says_what_it_wants() {
    let (_folder, reader) = trace();
    for endpoint in ENDPOINTS {
        assert!(!endpoint.about.is_empty());
        match (endpoint.run)(&reader, Value::Null) {
            Ok(answer) => assert!(answer.is_object(), "{}", endpoint.name),
            Err(error) => assert_eq!((endpoint.name, error.exit_status()), ("sql", 2), "{error}"),
        }
        let wrong = (endpoint.run)(&reader, json!({"colour": "red"})).unwrap_err();
        assert_eq!(wrong.exit_status(), 2, "{}: {wrong}", endpoint.name);
    }
    let mut names: Vec<_> = ENDPOINTS.iter().map(|endpoint| endpoint.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ENDPOINTS.len());
}

#[test]
fn sql_answers_with_coverage() {
    let (_folder, reader) = trace();
    let answer =
        ask(&reader, "sql", json!({"statement": "SELECT op, count(*) AS n FROM cuda_events GROUP BY op"}))
            .unwrap();
    assert_eq!(
        answer,
        json!({
            "rows": [{"op": "cuLaunchKernel", "n": 100}, {"op": "cudaMalloc", "n": 10}],
            "truncated": false,
            "coverage": {"lost": 7, "sampled": 990, "degraded": [], "unattached": []},
        })
    );
    let answer = ask(&reader, "sql", json!({"statement": "SELECT * FROM events", "limit": 3})).unwrap();
    assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["truncated"]), (3, &json!(true)));
    let refused = ask(&reader, "sql", json!({"statement": "DELETE FROM calls"})).unwrap_err();
    assert_eq!(refused.to_string(), "that SQL would change the trace; only SELECT is allowed");
    assert_eq!(refused.exit_status(), 1);
}

#[test]
fn events_are_filtered_and_the_newest_are_kept() {
    let (_folder, reader) = trace();
    let all = ask(&reader, "events", json!({})).unwrap();
    assert_eq!(all["rows"].as_array().unwrap().len(), 110);
    assert_eq!(all["rows"][0]["timestamp_ns"], START);
    assert_eq!(all["rows"][0]["node"], "node-7");
    let mallocs = ask(&reader, "events", json!({"op": "cudaMalloc", "pid": 20})).unwrap();
    assert_eq!(mallocs["rows"].as_array().unwrap().len(), 10);
    let newest = ask(&reader, "events", json!({"op": "cuLaunchKernel", "limit": 2})).unwrap();
    let times: Vec<_> =
        newest["rows"].as_array().unwrap().iter().map(|row| row["timestamp_ns"].as_u64().unwrap()).collect();
    assert_eq!((times, &newest["truncated"]), (vec![START + 98 * SECOND, START + 99 * SECOND], &json!(true)));
    // Back from the newest event, which is long ago.
    let late = ask(&reader, "events", json!({"since": "5s"})).unwrap();
    assert_eq!(late["rows"].as_array().unwrap().len(), 6);
    assert_eq!(late["coverage"]["lost"], 0);
    let none = ask(&reader, "events", json!({"op": "cudaFree"})).unwrap_err();
    assert_eq!(none.exit_status(), 3);
    assert_eq!(
        none.to_string(),
        "the trace has no events of operation cudaFree; it has calls of cuLaunchKernel, cudaMalloc"
    );
    assert_eq!(ask(&reader, "events", json!({"since": "soon"})).unwrap_err().exit_status(), 2);
}

#[test]
fn operations_agree_with_the_view_and_follow_filters() {
    let (_folder, reader) = trace();
    let typed = ask(&reader, "operations", json!({})).unwrap();
    let view = ask(&reader, "sql", json!({"statement": "SELECT * FROM op_summary"})).unwrap();
    assert_eq!(typed["rows"], view["rows"]);
    assert_eq!(typed["rows"][0]["op"], "cudaMalloc");
    let late = ask(&reader, "operations", json!({"op": "cuLaunchKernel", "since": "9s"})).unwrap();
    assert_eq!(late["rows"][0]["count"], 100);
    let p50 = late["rows"][0]["p50_us"].as_f64().unwrap();
    assert!((3.5..=4.0).contains(&p50), "{p50}");
    assert_eq!(late["rows"][0]["runq_pct"], 60.0);
    let of_process = ask(&reader, "operations", json!({"pid": 20})).unwrap();
    assert_eq!(of_process["rows"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&reader, "operations", json!({"pid": 77})).unwrap_err().exit_status(), 3);
}

#[test]
fn blame_is_summed_as_asked() {
    let (_folder, reader) = trace();
    let answer = ask(&reader, "blame", json!({})).unwrap();
    assert_eq!(
        answer["rows"][0],
        json!({"op": "cuLaunchKernel", "cause": "cpu.preempted", "by_pid": 99, "by_comm": "stress", "ms": 6.0, "pct": 60.0, "count": 4})
    );
    let by_cause = ask(&reader, "blame", json!({"by": ["cause"], "op": "cuLaunchKernel"})).unwrap();
    assert_eq!(by_cause["rows"][1], json!({"cause": "cpu.self", "ms": 2.0, "pct": 25.0, "count": 2}));
    let culprits = ask(&reader, "blame", json!({"by": ["by"], "cause": "cpu.preempted"})).unwrap();
    assert_eq!(
        culprits["rows"],
        json!([{"by_pid": 99, "by_comm": "stress", "ms": 6.0, "pct": 100.0, "count": 4}])
    );
    assert_eq!(ask(&reader, "blame", json!({"cause": "net.tcp"})).unwrap_err().exit_status(), 3);
}

#[test]
fn the_file_and_its_processes_are_described() {
    let (_folder, reader) = trace();
    let trace = ask(&reader, "trace", Value::Null).unwrap();
    assert_eq!(trace["events"], 110);
    assert_eq!(
        (trace["start_ns"].as_u64(), trace["end_ns"].as_u64()),
        (Some(START), Some(START + 100 * SECOND))
    );
    assert_eq!(trace["nodes"], json!(["node-7"]));
    assert_eq!(trace["sessions"][0]["host"], "node-7");
    assert!(trace["file"].as_str().unwrap().ends_with("trace.db"));
    let processes = ask(&reader, "processes", json!({"pid": 10})).unwrap();
    assert_eq!((&processes["rows"][0]["comm"], &processes["rows"][0]["rank"]), (&json!("python"), &json!(1)));
    assert_eq!(ask(&reader, "coverage", json!({"since": "9s"})).unwrap()["sampled"], 99);
}
