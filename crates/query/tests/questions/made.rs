//! Small traces made up for the tests.

use gpuwhy_model::{
    Batch, Blame, BlameRow, Call, CallWindow, Cause, Facts, Family, Histogram, Kept, Layer, Loss, OpId,
    OpInfo, Process, Role,
};
use gpuwhy_query::{QueryError, find};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const START: u64 = 1_790_000_000_000_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn op(id: u16, name: &str, family: Family) -> OpInfo {
    let layer = match family {
        Family::Collective => Layer::Nccl,
        Family::Ioctl => Layer::Driver,
        _ => Layer::Cuda,
    };
    OpInfo { id: OpId(id), name: name.into(), layer, family, waits_for_gpu: false, role: Role::None }
}

pub(crate) fn call(second: u64, op: u16, pid: u32) -> Call {
    Call {
        start_ns: START + second * SECOND,
        duration_ns: 1000,
        op: OpId(op),
        pid,
        tid: pid + 1,
        kept: Kept::Slow,
        blame: Blame { oncpu_ns: 1000, ..Blame::default() },
        ..Call::default()
    }
}

pub(crate) fn window(second: u64, op: u16, pid: u32, ns: u64) -> CallWindow {
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
        direction: None,
        count: 10,
        errors: 0,
        kept: 1,
        bytes: 0,
        sum_ns: 10 * ns,
        min_ns: ns,
        max_ns: ns,
        blame: Blame { oncpu_ns: 4 * ns, runq_ns: 6 * ns, ..Blame::default() },
        hist,
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    }
}

pub(crate) fn attributed(second: u64, op: u16, cause: Cause, by: (u32, &str), ns: u64) -> BlameRow {
    BlameRow {
        window_start_ns: START + second * SECOND,
        pid: 10,
        tid: 10,
        op: OpId(op),
        cause,
        by_pid: by.0,
        by_tid: by.0,
        by_comm: by.1.into(),
        by_cgroup_id: 0,
        ns,
        count: 2,
    }
}

pub(crate) fn ops() -> Vec<OpInfo> {
    vec![
        op(1, "cuLaunchKernel", Family::Launch),
        op(2, "cudaMalloc", Family::Alloc),
        op(3, "ncclAllReduce", Family::Collective),
        op(4, "ioctl nvidiactl", Family::Ioctl),
        op(5, "ioctl nvidia-uvm", Family::Ioctl),
        op(6, "cudaStreamSynchronize", Family::Sync),
    ]
}

/// A trace of one batch and what was concluded from it.
pub(crate) fn trace_of(batch: &Batch, facts: &Facts) -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap();
    writer.write(batch, facts).unwrap();
    writer.finish(START + 100 * SECOND).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

pub(crate) fn ask(reader: &Reader, name: &str, request: Value) -> Result<Value, QueryError> {
    (find(name).unwrap().run)(reader, request)
}

/// A hundred seconds: a launch each by process 10, an allocation each ten by process 20.
pub(crate) fn trace() -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, host: "node-7".into(), ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap();
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
    let blame = vec![
        attributed(1, 1, Cause::CpuPreempted, (99, "stress"), 3_000_000),
        attributed(2, 1, Cause::CpuPreempted, (99, "stress"), 3_000_000),
        attributed(3, 1, Cause::CpuSelf, (0, ""), 2_000_000),
        attributed(95, 2, Cause::GpuAlloc, (0, ""), 2_000_000),
    ];
    writer.write(&batch, &Facts { blame, ..Facts::default() }).unwrap();
    writer.finish(START + 100 * SECOND).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

pub(crate) fn processes() -> Vec<Process> {
    let process = |pid, comm: &str, cgroup: &str| Process {
        pid,
        start_ns: START - 1,
        comm: comm.into(),
        cgroup: cgroup.into(),
        cgroup_id: u64::from(pid) + 1,
        ..Process::default()
    };
    vec![process(10, "python", "/job"), process(20, "server", "/other")]
}

/// A trace of what was concluded about two processes.
pub(crate) fn trace_of_facts(facts: &Facts) -> (TempDir, Reader) {
    trace_of(&Batch { processes: processes(), ..Batch::default() }, facts)
}

pub(crate) fn rows(reader: &Reader, name: &str, request: Value) -> Vec<Value> {
    let answer = ask(reader, name, request).unwrap();
    assert!(answer["coverage"].is_object() && answer["truncated"].is_boolean(), "{answer}");
    answer["rows"].as_array().unwrap().clone()
}

/// The values of some columns of all rows.
pub(crate) fn columns(rows: &[Value], names: &[&str]) -> Value {
    rows.iter().map(|row| names.iter().map(|name| row[*name].clone()).collect::<Value>()).collect()
}

pub(crate) fn refused(reader: &Reader, name: &str, request: Value) -> String {
    let error = ask(reader, name, request).unwrap_err();
    assert_eq!(error.exit_status(), 3, "{error}");
    error.to_string()
}
