//! Values made up for the tests.

use gpuwhy_model::{
    Batch, Blame, Call, CallWindow, Direction, Facts, Family, Histogram, Kept, Launch, Layer, LibraryInfo,
    OpId, OpInfo, Reason, Role,
};
use gpuwhy_store::{Limits, Options, Reader, SessionInfo, Value, Writer};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const START: u64 = 1_790_000_000_000_000_000;

pub(crate) fn op(id: u16, name: &str, layer: Layer, family: Family) -> OpInfo {
    let role = match (family, name.contains("GraphLaunch")) {
        (Family::Launch, _) => Role::Launch,
        (_, true) => Role::GraphLaunch,
        _ => Role::None,
    };
    OpInfo { id: OpId(id), name: name.into(), layer, family, waits_for_gpu: family == Family::Sync, role }
}

pub(crate) fn ops() -> Vec<OpInfo> {
    vec![
        op(1, "cuLaunchKernel", Layer::Cuda, Family::Launch),
        op(2, "cudaMalloc", Layer::Cuda, Family::Alloc),
        op(3, "hipLaunchKernel", Layer::Hip, Family::Launch),
        op(4, "cudaStreamSynchronize", Layer::Cuda, Family::Sync),
        op(5, "cudaGraphLaunch", Layer::Cuda, Family::Graph),
        op(6, "ncclAllReduce", Layer::Nccl, Family::Collective),
        op(7, "ncclSend", Layer::Nccl, Family::Collective),
        op(8, "ioctl nvidia-uvm", Layer::Driver, Family::Ioctl),
        op(9, "cudaMemcpyAsync", Layer::Cuda, Family::Copy),
    ]
}

pub(crate) fn session() -> SessionInfo {
    SessionInfo {
        start_ns: START,
        host: "node-7".into(),
        kernel: "6.18.0".into(),
        gpus: vec!["NVIDIA H200".into()],
        driver: "580.1".into(),
        version: "0.1.0".into(),
        flags: vec!["trace".into(), "--out".into(), "x y.db".into()],
        clock_offset_ns: -5,
    }
}

pub(crate) fn writer(path: &Path) -> Writer {
    Writer::create_or_append(path, &session(), &ops(), &Options::default()).unwrap()
}

/// A call with nothing in it but what a call must have.
pub(crate) fn plain(number: u64) -> Call {
    Call {
        start_ns: START + number * 1000,
        duration_ns: 700,
        op: OpId(2),
        pid: 10,
        tid: 11,
        kept: Kept::Slow,
        blame: Blame { oncpu_ns: 700, ..Blame::default() },
        ..Call::default()
    }
}

/// A call with everything in it, and the largest numbers.
pub(crate) fn full(number: u64) -> Call {
    let mut blame = Blame { oncpu_ns: 1, runq_ns: 2, ..Blame::default() };
    for reason in Reason::ALL {
        blame.blocked_ns[reason as usize] = 10 + reason as u64;
    }
    Call {
        duration_ns: blame.total_ns(),
        op: OpId(1),
        cgroup_id: 4711,
        kept: Kept::Sample,
        sample_weight: 100,
        ret: -2,
        bytes: 1 << 40,
        stream: u64::MAX,
        handle: 0x7f00_dead_beef,
        aux: u64::MAX - 1,
        direction: Some(Direction::Unknown),
        device: Some(0),
        library: 3,
        first: true,
        caller: 1 << 63,
        via: None,
        launch: Some(Launch { grid: [u32::MAX, 70_000, 0], block: [1024, 1, 1], shared_bytes: 0 }),
        stack_id: Some(-77),
        blame,
        ..plain(number)
    }
}

pub(crate) fn calls(numbers: std::ops::Range<u64>) -> Batch {
    Batch { calls: numbers.map(plain).collect(), ..Batch::default() }
}

/// A window of calls with these durations.
pub(crate) fn window(second: u64, tid: u32, op: u16, durations: &[u64]) -> CallWindow {
    let mut hist = Histogram::default();
    for ns in durations {
        hist.record(*ns);
    }
    let sum_ns = durations.iter().sum();
    CallWindow {
        window_start_ns: START + second * 1_000_000_000,
        window_ns: 1_000_000_000,
        pid: 10,
        tid,
        op: OpId(op),
        direction: None,
        count: durations.len() as u64,
        errors: 1,
        kept: 2,
        bytes: 64,
        sum_ns,
        min_ns: durations.iter().copied().min().unwrap(),
        max_ns: durations.iter().copied().max().unwrap(),
        blame: Blame { oncpu_ns: sum_ns / 2, runq_ns: sum_ns - sum_ns / 2, ..Blame::default() },
        hist,
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    }
}

pub(crate) fn library(number: u16, file: &str) -> LibraryInfo {
    LibraryInfo { number, kind: "libcuda".into(), file: file.into() }
}

/// A trace of one batch and what was concluded from it.
pub(crate) fn trace(batch: &Batch, facts: &Facts) -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer.write(batch, facts).unwrap();
    writer.finish(START + 1_000_000_000).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

pub(crate) fn one(reader: &Reader, sql: &str) -> Vec<Value> {
    let answer = reader.sql(sql, &Limits::default()).unwrap();
    assert_eq!(answer.rows.len(), 1, "{sql}: {:?}", answer.rows);
    answer.rows.into_iter().next().unwrap()
}

pub(crate) fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// The rows of an answer, values apart by a bar, as the `sqlite3` program shows them; `-` is NULL. Times are counted
/// from the start of the trace.
pub(crate) fn lines(reader: &Reader, sql: &str) -> Vec<String> {
    let word = |value: &Value| match value {
        Value::Null => "-".into(),
        Value::Integer(time) if *time >= START as i64 => format!("+{}", time - START as i64),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{bytes:?}"),
    };
    let answer = reader.sql(sql, &Limits::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    answer.rows.iter().map(|row| row.iter().map(word).collect::<Vec<_>>().join("|")).collect()
}
