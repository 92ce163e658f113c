//! `stacks`: where in the code time or memory goes: stacks merged into one tree, as a flame graph draws it.

use crate::QueryError;
use crate::evidence::row::{Row, each_row};
use crate::sampled::{Wanted, each_kept};
use crate::since::{selection, span};
use gpuwhy_model::{Coverage, Span};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashMap;

const FRAMES: usize = 500;
const MOST_FRAMES: usize = 20_000;
/// The heaviest stacks are read, no more than these.
const MOST_STACKS: usize = 5_000;

/// What the tree is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StacksOf {
    /// Kept GPU calls; values are nanoseconds.
    #[default]
    Calls,
    /// Waits of Python threads between calls, as they were met four times a second; values are nanoseconds.
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
    /// What the tree is of: `calls`, `waits` or `memory`.
    pub of: StacksOf,
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Of calls: only the time that went to this class of cause, as `cpu.preempted`.
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
    pub coverage: Coverage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StackFrame {
    pub id: u32,
    /// The id of the frame that called it; null where the thread began.
    pub parent: Option<u32>,
    /// `python`, `native`, `kernel`, or `op` for the operation that was called.
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

/// By operation and stack: value and count.
type Weights = HashMap<(String, i64), (f64, f64)>;

pub fn stacks(reader: &Reader, request: &StacksRequest) -> Result<Stacks, QueryError> {
    let span = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let mut weights = Weights::new();
    let all = match request.of {
        StacksOf::Calls => calls(reader, request, span, &mut weights)?,
        StacksOf::Waits => waits(reader, request, span, &mut weights)?,
        StacksOf::Memory => memory(reader, request, span, &mut weights)?,
    };
    if weights.is_empty() {
        let selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(QueryError::NoData(format!(
            "the trace has no stacks{selection}; trace with --stacks auto or on, and ask about a longer time"
        )));
    }
    let mut heaviest: Vec<((String, i64), (f64, f64))> = weights.into_iter().collect();
    heaviest.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
    let (value, count) = heaviest.iter().fold((0.0, 0.0), |sum, (_, w)| (sum.0 + w.0, sum.1 + w.1));
    let too_many = heaviest.len() > MOST_STACKS;
    heaviest.truncate(MOST_STACKS);
    let mut tree = Tree::default();
    let mut known: HashMap<i64, Vec<Place>> = HashMap::new();
    for ((op, stack_id), weight) in &heaviest {
        if !known.contains_key(stack_id) {
            known.insert(*stack_id, places(reader, *stack_id, request.frames)?);
        }
        tree.add(known.get(stack_id).map_or(&[][..], Vec::as_slice), op, *weight);
    }
    let (frames, cut) = tree.frames(request.limit.unwrap_or(FRAMES).clamp(1, MOST_FRAMES));
    Ok(Stacks {
        unit: if request.of == StacksOf::Memory { "bytes" } else { "ns" },
        value: value as u64,
        count: count.round() as u64,
        sampled: !all,
        frames,
        truncated: cut || too_many,
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
            let sum = weights.entry((call.op.to_string(), stack_id)).or_default();
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
        let sum = weights.entry((row.text(0), stack_id)).or_default();
        *sum = (sum.0 + row.number(2) as f64, sum.1 + row.number(3) as f64);
    })?;
    Ok(true)
}

/// What tells frames of the same caller apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    kind: String,
    function: String,
    file: Option<String>,
    line: Option<u64>,
    module: Option<String>,
}

/// A stack, outermost first.
fn places(reader: &Reader, stack_id: i64, wanted: StackFrames) -> Result<Vec<Place>, QueryError> {
    let mut places = Vec::new();
    let sql = "SELECT kind, function, file, line, module, address FROM frames WHERE stack_id = ?1 ORDER BY depth DESC LIMIT 512";
    reader.select_each(sql, &[stack_id.into()], |row| {
        let row = Row::of(row);
        let kind = row.text(0);
        let fits = match wanted {
            StackFrames::All | StackFrames::Own => true,
            StackFrames::Python => kind == "python",
            StackFrames::Native => kind != "python",
        };
        if fits {
            // Lines of native functions would tell calls of one function apart by where it went on.
            let line = if kind == "python" { row.maybe(3) } else { None };
            places.push(Place {
                function: row.maybe_text(1).or_else(|| row.maybe_text(5)).unwrap_or_default(),
                file: row.maybe_text(2),
                line,
                module: row.maybe_text(4).filter(|module| !module.is_empty()),
                kind,
            });
        }
    })?;
    if wanted == StackFrames::Own && places.iter().any(|place| place.kind == "python") {
        places.retain(|place| place.kind == "python");
    }
    Ok(places)
}

#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Place), usize>,
}

#[derive(Debug)]
struct Node {
    parent: Option<usize>,
    place: Place,
    depth: usize,
    value: f64,
    count: f64,
    own: f64,
}

impl Tree {
    /// The operation itself is the innermost frame.
    fn add(&mut self, places: &[Place], op: &str, (value, count): (f64, f64)) {
        let leaf = Place { kind: "op".into(), function: op.into(), file: None, line: None, module: None };
        let mut parent = None;
        for (depth, place) in places.iter().chain([&leaf]).enumerate() {
            let nodes = &mut self.nodes;
            let at = *self.children.entry((parent, place.clone())).or_insert_with(|| {
                nodes.push(Node { parent, place: place.clone(), depth, value: 0.0, count: 0.0, own: 0.0 });
                nodes.len() - 1
            });
            if let Some(node) = self.nodes.get_mut(at) {
                node.value += value;
                node.count += count;
            }
            parent = Some(at);
        }
        if let Some(node) = parent.and_then(|at| self.nodes.get_mut(at)) {
            node.own += value;
        }
    }

    /// The heaviest; whether there are more. A frame is never heavier than the one that called it.
    fn frames(self, most: usize) -> (Vec<StackFrame>, bool) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        let nodes = &self.nodes;
        order.sort_by_key(|at| nodes.get(*at).map(|node| (Reverse(node.value as u64), node.depth, *at)));
        let cut = order.len() > most;
        order.truncate(most);
        let ids: HashMap<usize, u32> = order.iter().copied().zip(0..).collect();
        let frames = order.iter().filter_map(|at| nodes.get(*at)).zip(0..).map(|(node, id)| StackFrame {
            id,
            parent: node.parent.and_then(|parent| ids.get(&parent).copied()),
            kind: node.place.kind.clone(),
            function: node.place.function.clone(),
            file: node.place.file.clone(),
            line: node.place.line,
            module: node.place.module.clone(),
            value: node.value as u64,
            count: node.count.round() as u64,
            own: node.own as u64,
        });
        (frames.collect(), cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str) -> Place {
        Place { kind: "native".into(), function: function.into(), file: None, line: None, module: None }
    }

    #[test]
    fn stacks_with_the_same_begin_share_it_and_values_add_up() {
        let mut tree = Tree::default();
        let (main, a, b) = (place("main"), place("a"), place("b"));
        tree.add(&[main.clone(), a.clone()], "launch", (30.0, 3.0));
        tree.add(&[main.clone(), b], "launch", (60.0, 1.0));
        tree.add(&[main, a], "copy", (10.0, 1.0));
        let (frames, cut) = tree.frames(100);
        let told: Vec<(u32, Option<u32>, &str, u64, u64)> = frames
            .iter()
            .map(|frame| (frame.id, frame.parent, frame.function.as_str(), frame.value, frame.own))
            .collect();
        assert_eq!(
            told,
            [
                (0, None, "main", 100, 0),
                (1, Some(0), "b", 60, 0),
                (2, Some(1), "launch", 60, 60),
                (3, Some(0), "a", 40, 0),
                (4, Some(3), "launch", 30, 30),
                (5, Some(3), "copy", 10, 10),
            ]
        );
        assert!(!cut);
    }

    #[test]
    fn a_tree_that_is_cut_short_is_still_a_tree() {
        let mut tree = Tree::default();
        for leaf in 0..50 {
            tree.add(&[place("main"), place(&format!("f{leaf}"))], "x", (f64::from(leaf), 1.0));
        }
        let (frames, cut) = tree.frames(7);
        assert!(cut);
        assert_eq!(frames.len(), 7);
        for (at, frame) in frames.iter().enumerate() {
            assert!(frame.parent.is_none_or(|parent| (parent as usize) < at), "{frame:?}");
        }
    }
}
