//! Questions of a large trace: what an assistant and a page wait for. Asked of the query layer itself, where nothing is kept from one
//! answer to the next.

use crate::figures::{Figures, Limit, median};
use anyhow::Result;
use gpuwhy_model::{
    Batch, Blame, BlameRow, Call, CallWindow, Cause, Facts, Frame, Histogram, Kept, OpId, Process, Stack,
};
use gpuwhy_probes::{PROBES, op_infos};
use gpuwhy_query::{ENDPOINTS, QueryError};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

const START: u64 = 1_790_000_000_000_000_000;
const WINDOW_NS: u64 = 500_000_000;
const CALLS_A_WINDOW: u64 = 5_000;
const PROCESSES: u64 = 4;
const OPS: u64 = 8;
const STACKS: u64 = 128;
/// What the overview asks.
const PAGE: [&str; 5] = ["trace", "coverage", "operations", "timeline", "gpus"];

/// Ten seconds are promised; a page that waits for it shall not be a second slower than others.
const EXPLAIN_MS: f64 = 2_000.0;

pub(crate) fn measure(events: u64, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir()?;
    // One that is kept can be asked again, by other programs too.
    let kept = std::env::var_os("GPUWHY_BENCH_TRACE").map(PathBuf::from);
    let path = kept.unwrap_or_else(|| folder.path().join("large.db"));
    if !path.exists() {
        write(&path, events)?;
    }
    let reader = Reader::open(&path)?;
    let mut all: Vec<f64> = Vec::new();
    let mut page: f64 = 0.0;
    for endpoint in ENDPOINTS {
        let request = match endpoint.name {
            "sql" => {
                json!({"statement": "SELECT op, count(*), max(duration_ns) FROM cuda_events WHERE timestamp_ns < (SELECT min(timestamp_ns) + 1000000000 FROM calls) GROUP BY 1"})
            }
            _ => Value::Null,
        };
        let mut times = Vec::new();
        for _ in 0..5 {
            let began = Instant::now();
            match (endpoint.run)(&reader, request.clone()) {
                Err(error @ QueryError::Usage(_)) => return Err(error.into()),
                // One that is stopped at its limit has taken that long.
                _ => times.push(began.elapsed().as_secs_f64() * 1e3),
            }
            // Slow ones are slow every time.
            if began.elapsed().as_secs() > 5 {
                break;
            }
        }
        let ms = median(&mut times);
        let question = format!("question {}", endpoint.name);
        match endpoint.name {
            "explain" => figures.add_limited(question, ms, "ms", Limit::AtMost(EXPLAIN_MS)),
            _ => figures.add(question, ms, "ms"),
        }
        all.push(ms);
        if PAGE.contains(&endpoint.name) {
            page = page.max(ms);
        }
    }
    let millions = events as f64 / 1e6;
    figures.add_limited(
        format!("a question, median of all, {millions} M events"),
        median(&mut all),
        "ms",
        Limit::AtMost(100.0),
    );
    figures.add_limited("the slowest of the overview's questions", page, "ms", Limit::AtMost(200.0));
    Ok(())
}

fn write(path: &Path, events: u64) -> Result<()> {
    let session = SessionInfo { start_ns: START, host: "bench".into(), ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(path, &session, &op_infos(PROBES), &Options::default())?;
    let mut batch = Batch { processes: (0..PROCESSES).map(process).collect(), ..Batch::default() };
    batch.stacks = (0..STACKS).map(stack).collect();
    let windows = events / CALLS_A_WINDOW;
    for window in 0..windows {
        let start_ns = START + window * WINDOW_NS;
        let step = WINDOW_NS / CALLS_A_WINDOW;
        batch.calls = (0..CALLS_A_WINDOW).map(|number| call(start_ns + number * step, number)).collect();
        let keys = (0..PROCESSES).flat_map(|process| (0..OPS).map(move |op| (process, op)));
        batch.windows = keys.map(|(process, op)| sums(start_ns, process, op)).collect();
        let facts =
            Facts { blame: (0..16).map(|thread| attributed(start_ns, thread)).collect(), ..Facts::default() };
        writer.write(&batch, &facts)?;
        (batch.processes, batch.stacks) = (Vec::new(), Vec::new());
        if window % 50 == 0 {
            writer.commit()?;
        }
    }
    writer.finish(START + windows * WINDOW_NS)?;
    Ok(())
}

fn process(number: u64) -> Process {
    Process {
        pid: pid(number),
        start_ns: START,
        comm: "python".into(),
        rank: Some(number as i32),
        ..Process::default()
    }
}

fn pid(number: u64) -> u32 {
    4242 + (number % PROCESSES) as u32 * 100
}

fn stack(number: u64) -> Stack {
    let frame = |depth: u64| Frame {
        function: Some(format!("function_{}", if depth > 10 { depth } else { depth * STACKS + number })),
        module: "libmodel.so".into(),
        ..Frame::default()
    };
    Stack {
        stack_id: number as i64 + 1,
        pid: pid(number),
        frames: (0..20).map(frame).collect(),
        ..Stack::default()
    }
}

fn call(start_ns: u64, number: u64) -> Call {
    let duration_ns = 5_000 + number % 977;
    Call {
        start_ns,
        duration_ns,
        op: OpId(1 + (number % OPS) as u16),
        pid: pid(number),
        tid: pid(number) + (number % 16) as u32 / 4,
        kept: Kept::All,
        stack_id: Some((number % STACKS) as i64 + 1),
        blame: Blame { oncpu_ns: 5_000, runq_ns: number % 977, ..Blame::default() },
        ..Call::default()
    }
}

fn sums(start_ns: u64, process: u64, op: u64) -> CallWindow {
    let count = CALLS_A_WINDOW / PROCESSES / OPS;
    let mut hist = Histogram::default();
    (0..count).for_each(|number| hist.record(5_000 + number * 6));
    CallWindow {
        window_start_ns: start_ns,
        window_ns: WINDOW_NS,
        pid: pid(process),
        tid: pid(process),
        op: OpId(1 + op as u16),
        direction: None,
        count,
        errors: 0,
        kept: count,
        bytes: 0,
        sum_ns: count * 5_500,
        min_ns: 5_000,
        max_ns: 6_000,
        blame: Blame { oncpu_ns: count * 5_000, runq_ns: count * 500, ..Blame::default() },
        hist,
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    }
}

fn attributed(start_ns: u64, thread: u64) -> BlameRow {
    BlameRow {
        window_start_ns: start_ns,
        pid: pid(thread),
        tid: pid(thread) + thread as u32 / 4,
        op: OpId(1 + (thread % OPS) as u16),
        cause: Cause::CpuPreempted,
        by_pid: 99,
        by_tid: 99,
        by_comm: "neighbour".into(),
        by_cgroup_id: 0,
        ns: 100_000,
        count: 10,
    }
}
