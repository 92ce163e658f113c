//! Small traces, servers of them, and a question of the host that does nothing.

use crate::client::Client;
use gpuwhy_model::{
    Batch, Blame, BlameRow, Call, CallWindow, Cause, Facts, Family, Frame, FrameKind, Histogram, Kept, Layer,
    OpId, OpInfo, Process, Role, Stack,
};
use gpuwhy_query::Question;
use gpuwhy_serve::{At, HostEndpoint, HttpOptions, Questions, Tokens, serve_http};
use gpuwhy_store::{Options, SessionInfo, Writer};
use schemars::JsonSchema;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

const START: u64 = 1_790_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(JsonSchema)]
struct Nothing {}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Greeting {
    /// What it says.
    hello: String,
}

/// Stands in for what the program that serves knows of its host.
pub(crate) static HOST: &[HostEndpoint] = &[Question {
    name: "greeting",
    tool: "get_greeting",
    about: "a word of the host",
    next: "get_trace",
    request: |schemas| schemas.root_schema_for::<Nothing>(),
    answer: |schemas| schemas.root_schema_for::<Greeting>(),
    run: |_, stop| {
        assert!(!stop.is_stopped());
        Ok(json!({"hello": "world"}))
    },
}];

/// Thirty seconds of launches by a process of this name, with stacks.
pub(crate) fn trace_of(comm: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    write(&path, comm);
    (folder, path)
}

fn write(path: &Path, comm: &str) {
    let op = OpInfo {
        id: OpId(1),
        name: "cuLaunchKernel".into(),
        layer: Layer::Cuda,
        family: Family::Launch,
        waits_for_gpu: false,
        role: Role::None,
    };
    let session = SessionInfo { start_ns: START, host: "node-7".into(), ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(path, &session, &[op], &Options::default()).unwrap();
    let process = Process {
        pid: 10,
        start_ns: START,
        comm: comm.into(),
        cmdline: format!("{comm} --lr 0.1"),
        ..Process::default()
    };
    let frame = |kind, function: &str, line| Frame {
        kind,
        function: Some(function.into()),
        file: Some(format!("/home/{comm}/train.py")),
        line,
        module: comm.into(),
        ..Frame::default()
    };
    let stack = Stack {
        stack_id: 5,
        pid: 10,
        frames: vec![
            frame(FrameKind::Native, "cudaLaunchKernel", None),
            frame(FrameKind::Python, "forward", Some(142)),
            frame(FrameKind::Python, "main", Some(7)),
        ],
        ..Stack::default()
    };
    let mut batch = Batch { processes: vec![process], stacks: vec![stack], ..Batch::default() };
    let mut facts = Facts::default();
    for second in 0..30 {
        let start_ns = START + second * SECOND;
        let blame = Blame { oncpu_ns: 4_000_000, runq_ns: 6_000_000, ..Blame::default() };
        batch.calls.push(Call {
            start_ns,
            duration_ns: 10_000_000,
            op: OpId(1),
            pid: 10,
            tid: 11,
            kept: Kept::Slow,
            stack_id: Some(5),
            blame,
            ..Call::default()
        });
        let mut hist = Histogram::default();
        (0..10).for_each(|_| hist.record(10_000_000));
        batch.windows.push(CallWindow {
            window_start_ns: start_ns,
            window_ns: SECOND / 2,
            pid: 10,
            tid: 11,
            op: OpId(1),
            direction: None,
            count: 10,
            errors: 0,
            kept: 1,
            bytes: 0,
            sum_ns: 100_000_000,
            min_ns: 10_000_000,
            max_ns: 10_000_000,
            blame: Blame { oncpu_ns: 40_000_000, runq_ns: 60_000_000, ..Blame::default() },
            hist,
            cost_ns: 0,
            beside_ns: 0,
            slice: 0,
        });
        facts.blame.push(BlameRow {
            window_start_ns: start_ns,
            pid: 10,
            tid: 11,
            op: OpId(1),
            cause: Cause::CpuPreempted,
            by_pid: 99,
            by_tid: 99,
            by_comm: comm.into(),
            by_cgroup_id: 0,
            ns: 60_000_000,
            count: 10,
        });
    }
    writer.write(&batch, &facts).unwrap();
    writer.finish(START + 30 * SECOND).unwrap();
}

/// Served until the tests end.
pub(crate) fn served(path: &Path, options: HttpOptions) -> Client {
    Client::new(&served_at(path, options).address)
}

pub(crate) fn served_at(path: &Path, options: HttpOptions) -> At {
    let questions = Questions::new(path.into(), HOST);
    let (emit, reported) = mpsc::channel();
    std::thread::spawn(move || {
        serve_http(questions, options, |at| emit.send(at.clone()).unwrap()).unwrap();
    });
    reported.recv_timeout(Duration::from_secs(20)).unwrap()
}

/// Open to everybody on this host.
pub(crate) fn options() -> HttpOptions {
    HttpOptions { address: "127.0.0.1:0".into(), open: true, page: true, ..HttpOptions::default() }
}

pub(crate) const TOKEN: &str = "a-token-of-the-tests-0123456789";

pub(crate) fn guarded() -> HttpOptions {
    HttpOptions { tokens: Tokens::read(None, Some(TOKEN)).unwrap(), ..options() }
}
