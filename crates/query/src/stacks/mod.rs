//! `stacks`: where in the code time or memory goes: stacks merged into one tree, as a flame graph draws it.

mod time;
mod tree;

use crate::QueryError;
use crate::evidence::row::each_row;
use crate::sampled::{Wanted, each_kept};
use crate::since::{selection, span};
use gpuwhy_model::{Coverage, Span};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tree::{Place, Tree, places};

const FRAMES: usize = 500;
const MAX_FRAMES: usize = 20_000;
/// The heaviest stacks are read, no more than these.
const MAX_STACKS: usize = 5_000;

/// What the tree is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StacksOf {
    /// Kept GPU calls; values are nanoseconds.
    #[default]
    Calls,
    /// All time of each thread: calls, waits between calls, code that ran; by thread and by phase (start, loop, end). Values are
    /// nanoseconds.
    Time,
    /// Waits of Python threads between calls, as they were sampled; values are nanoseconds.
    Waits,
    /// Device memory that is live at the end; values are bytes.
    Memory,
}

/// Which frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StackFrames {
    /// Of a stack with Python in it the lines of Python, else the native functions.
    #[default]
    Own,
    All,
    Python,
    Native,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StacksRequest {
    /// What the tree is of: `calls`, `time`, `waits` or `memory`.
    pub of: StacksOf,
    /// Of time: only this thread.
    pub tid: Option<u32>,
    /// Of time: only the thread that ran and called most.
    pub busiest: bool,
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Of calls and time: only the time that went to this class of cause, as `cpu.preempted`.
    pub cause: Option<String>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Until this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// Which frames: `own` (Python's where a stack has some, else native ones), `all`, `python` or `native`.
    pub frames: StackFrames,
    /// At most so many frames (500), the heaviest.
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stacks {
    /// `ns` or `bytes`.
    pub unit: &'static str,
    /// Of all stacks together.
    pub value: u64,
    pub count: u64,
    /// There are more kept calls than were read: values are estimates.
    pub sampled: bool,
    /// The heaviest first, so that a frame comes after the one that called it: any part of the list from its begin on is a tree.
    pub frames: Vec<StackFrame>,
    /// There are more frames than were asked for.
    pub truncated: bool,
    /// Of time: the threads, those that ran and called most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<StackThread>,
    pub coverage: Coverage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StackThread {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    /// All its time that is known of.
    pub ns: u64,
    /// In calls and running.
    pub active_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StackFrame {
    pub id: u32,
    /// The id of the frame that called it; null where the thread began.
    pub parent: Option<u32>,
    /// `python`, `native`, `kernel`, or `op` for the operation that was called. Of time also `thread`, `phase`, and at the end `wait` or `run`.
    pub kind: String,
    pub function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The library or program it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// With all that it called.
    pub value: u64,
    pub count: u64,
    /// Without what it called.
    pub own: u64,
}

/// What comes before and behind the frames of a stack, and which stack: value and count.
type Weights = HashMap<Of, (f64, f64)>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Of {
    /// Of time: the thread and its phase.
    head: Vec<Place>,
    stack_id: Option<i64>,
    leaf: Place,
}

impl Of {
    fn op(op: impl Into<String>, stack_id: i64) -> Of {
        Of { head: Vec::new(), stack_id: Some(stack_id), leaf: Place::word("op", op) }
    }
}

pub fn stacks(reader: &Reader, request: &StacksRequest) -> Result<Stacks, QueryError> {
    let span = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let mut weights = Weights::new();
    let mut threads = Vec::new();
    let all = match request.of {
        StacksOf::Calls => calls(reader, request, span, &mut weights)?,
        StacksOf::Time => time::time(reader, request, span, &mut weights, &mut threads)?,
        StacksOf::Waits => waits(reader, request, span, &mut weights)?,
        StacksOf::Memory => memory(reader, request, span, &mut weights)?,
    };
    if weights.is_empty() {
        let selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(QueryError::NoData(format!(
            "the trace has no stacks{selection}; trace with --stacks auto or on, and ask about a longer time"
        )));
    }
    let mut heaviest: Vec<(Of, (f64, f64))> = weights.into_iter().collect();
    heaviest.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
    let (value, count) = heaviest.iter().fold((0.0, 0.0), |sum, (_, w)| (sum.0 + w.0, sum.1 + w.1));
    let too_many = heaviest.len() > MAX_STACKS;
    heaviest.truncate(MAX_STACKS);
    let mut tree = Tree::default();
    let mut known: HashMap<i64, Vec<Place>> = HashMap::new();
    for (of, weight) in &heaviest {
        if let Some(stack_id) = of.stack_id.filter(|stack_id| !known.contains_key(stack_id)) {
            known.insert(stack_id, places(reader, stack_id, request.frames)?);
        }
        let stack = of.stack_id.and_then(|stack_id| known.get(&stack_id)).map_or(&[][..], Vec::as_slice);
        tree.add(of.head.iter().chain(stack).chain([&of.leaf]), *weight);
    }
    let (frames, cut) = tree.frames(request.limit.unwrap_or(FRAMES).clamp(1, MAX_FRAMES));
    Ok(Stacks {
        unit: if request.of == StacksOf::Memory { "bytes" } else { "ns" },
        value: value as u64,
        count: count.round() as u64,
        sampled: !all,
        frames,
        truncated: cut || too_many,
        threads,
        coverage: reader.coverage(Some(span.start_ns))?,
    })
}

fn calls(
    reader: &Reader,
    request: &StacksRequest,
    span: Span,
    weights: &mut Weights,
) -> Result<bool, QueryError> {
    let wanted = Wanted { span, pid: request.pid, op: request.op.as_deref() };
    each_kept(reader, wanted, |call| {
        let Some(stack_id) = call.stack_id else { return };
        let share = match &request.cause {
            None => 100.0,
            Some(class) => {
                call.causes.iter().filter(|(cause, _)| cause.name() == class).map(|(_, share)| share).sum()
            }
        };
        let value = call.duration_ns as f64 * share / 100.0 * call.weight;
        if value > 0.0 {
            let sum = weights.entry(Of::op(call.op, stack_id)).or_default();
            *sum = (sum.0 + value, sum.1 + call.weight);
        }
    })
}

/// Each time a thread is met stands for the time since the last look.
fn waits(
    reader: &Reader,
    request: &StacksRequest,
    span: Span,
    weights: &mut Weights,
) -> Result<bool, QueryError> {
    let sql = format!(
        "SELECT reason, stack_id, sum(coalesce(weight_ns, 250000000)), count(*) FROM wait_samples WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2{} \
         GROUP BY 1, 2",
        of_process(request)
    );
    add_rows(reader, &sql, span, weights)
}

fn memory(
    reader: &Reader,
    request: &StacksRequest,
    span: Span,
    weights: &mut Weights,
) -> Result<bool, QueryError> {
    let sql = format!(
        "SELECT op, stack_id, sum(bytes), count(*) FROM allocations WHERE allocated_ns >= ?1 AND allocated_ns < ?2 \
         AND freed_ns IS NULL AND stack_id IS NOT NULL{} GROUP BY 1, 2",
        of_process(request)
    );
    add_rows(reader, &sql, span, weights)
}

fn of_process(request: &StacksRequest) -> String {
    request.pid.map(|pid| format!(" AND pid = {pid}")).unwrap_or_default()
}

fn add_rows(reader: &Reader, sql: &str, span: Span, weights: &mut Weights) -> Result<bool, QueryError> {
    each_row(reader, sql, [span.start_ns, span.end_ns.saturating_add(1)], |row| {
        let Some(stack_id) = row.signed(1) else { return };
        let sum = weights.entry(Of::op(row.text(0), stack_id)).or_default();
        *sum = (sum.0 + row.number(2) as f64, sum.1 + row.number(3) as f64);
    })?;
    Ok(true)
}
