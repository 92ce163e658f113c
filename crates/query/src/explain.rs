//! `explain`: what was slow, why, by whom, where in the code, what it cost and what to do.

use crate::QueryError;
use crate::evidence::{Scope, gather, threads};
use crate::quiet::Quiet;
use crate::since::{nothing, span};
use crate::trace::nodes;
use gpuwhy_cause::{Evidence, Idle, ServerReport, StepTree, Tail};
use gpuwhy_model::advice::with_trace;
use gpuwhy_model::units::{duration, quoted};
use gpuwhy_model::{Coverage, Finding, Layer, Span};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExplainRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// The tails of each process, too.
    pub per_process: bool,
}

/// Its fields are those of `explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    pub trace: TraceInShort,
    pub coverage: Coverage,
    /// What the steps of each process are made of.
    pub steps: Vec<StepTree>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// By process: how long its GPU had no work, and what the launching thread did meanwhile.
    pub idle: Vec<Idle>,
    /// What the slowest calls of each operation spent their time on.
    pub tail: Vec<Tail>,
    /// Processes that have stopped giving the GPU work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<Quiet>,
    /// Inference servers that were watched meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerReport>,
}

/// The trace that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceInShort {
    pub file: String,
    /// Of what was looked at.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Of the time that was looked at.
    pub events: u64,
    pub nodes: Vec<String>,
}

/// From so many on a second reader is worth its opening.
const MIN_EVENTS_OF_TWO: u64 = 200_000;

pub fn explain(reader: &Reader, request: &ExplainRequest) -> Result<Explained, QueryError> {
    let events = reader.event_count()?;
    // Opening another one takes longer than reading a small trace, and of another tool's file all rows are read for it.
    let others = usize::from(reader.origin().has_blame() && events >= MIN_EVENTS_OF_TWO);
    reader.at_one_moment_with(others, |mut others| explain_with(reader, others.first_mut(), request, events))
}

/// `beside` reads the same file at the same time.
fn explain_with(
    reader: &Reader,
    beside: Option<&mut Reader>,
    request: &ExplainRequest,
    events: u64,
) -> Result<Explained, QueryError> {
    let span = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let mut evidence = threads(reader, span)?;
    let mut scope = Scope::of_loops(gpuwhy_cause::loops(&evidence));
    gather(reader, beside, &scope, request.per_process, &mut evidence)?;
    // Of a short program all calls may lie in a window that is mostly behind its loop.
    if evidence.sums.is_empty() && !matches!(scope, Scope::All) {
        scope = Scope::All;
        evidence = threads(reader, span)?;
        gather(reader, None, &scope, request.per_process, &mut evidence)?;
    }
    let empty = evidence.sums.is_empty()
        && evidence.foreign.is_empty()
        && evidence.collectives.is_empty()
        && evidence.in_flight.is_empty()
        && evidence.gpu_errors.is_empty()
        && evidence.fabric.is_empty();
    let known_pid = |pid: u32| {
        evidence.sums.iter().any(|sums| sums.pid == pid)
            || evidence.foreign.iter().any(|op| op.pid == pid)
            || evidence.processes.iter().any(|process| process.pid == pid)
    };
    let known_op = |op: &str| {
        evidence.sums.iter().any(|sums| sums.op == op)
            || evidence.foreign.iter().any(|foreign| foreign.op == op)
            || evidence.collectives.iter().any(|arrival| arrival.op == op)
    };
    let asked_in_vain = request.pid.is_some_and(|pid| !known_pid(pid))
        || request.op.as_deref().is_some_and(|op| !known_op(op));
    if empty || asked_in_vain {
        let selection = crate::since::selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(nothing(reader, "calls", &selection)?);
    }
    let mut explanation = gpuwhy_cause::explain(&evidence);
    // Where older waits were not looked at, what lies before the loop is mostly loop, too.
    let cut_ns = Some(evidence.activity.whole_from_ns).filter(|time| *time > span.start_ns);
    if let Some(before) = scope.start().filter(|_| cut_ns.is_none()) {
        let end_ns = before.loops().iter().map(|(_, span)| span.start_ns).max().unwrap_or(span.start_ns);
        let trees = explanation.steps.iter().filter(|tree| tree.phase == "start");
        let starts = trees.map(|tree| (tree.pid, tree.window)).collect();
        let mut start = Evidence { span: Span { end_ns, ..span }, starts, ..of_trace(&evidence) };
        gather(reader, None, &before, false, &mut start)?;
        explanation.add_start(gpuwhy_cause::explain(&start));
    }
    let mut coverage = evidence.coverage.clone();
    leave_out_unused(&mut coverage, &evidence);
    coverage.degraded.append(&mut explanation.left);
    if let Some(cut_ns) = cut_ns {
        let of = duration(span.end_ns.saturating_sub(cut_ns));
        let line = format!(
            "steps and findings of loops are of the last {of}, as many waits as are walked at once: --to looks at an earlier time"
        );
        coverage.degraded.insert(0, line);
    }
    let wanted = |finding: &Finding| {
        request.pid.is_none_or(|pid| finding.pid == Some(pid))
            && request.op.as_ref().is_none_or(|op| finding.op.as_ref() == Some(op))
    };
    let file = reader.path().display().to_string();
    let is_part = request.since.is_some() || request.from_ns.is_some() || request.to_ns.is_some();
    let events = if is_part { reader.event_count_in(span)? } else { events };
    Ok(Explained {
        trace: TraceInShort {
            file: file.clone(),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            events,
            nodes: nodes(&reader.sessions()?),
        },
        coverage,
        findings: explanation
            .findings
            .into_iter()
            .filter(wanted)
            .map(|finding| named(finding, &file))
            .collect(),
        idle: explanation
            .idle
            .into_iter()
            .filter(|idle| request.pid.is_none_or(|pid| idle.pid == pid))
            .collect(),
        tail: explanation
            .tail
            .into_iter()
            .filter(|tail| request.op.as_ref().is_none_or(|op| tail.op == *op))
            .collect(),
        servers: explanation.servers,
        quiet: crate::quiet::quiet(&evidence, span)
            .into_iter()
            .filter(|quiet| request.pid.is_none_or(|pid| quiet.pid == pid))
            .collect(),
        steps: explanation
            .steps
            .into_iter()
            .filter(|tree| request.pid.is_none_or(|pid| tree.pid == pid))
            .collect(),
    })
}

/// Its commands can be pasted: they name the trace.
fn named(mut finding: Finding, file: &str) -> Finding {
    for fix in &mut finding.fixes {
        *fix = with_trace(fix, file);
    }
    finding
}

/// Commands with the trace's name alone, for files that are read elsewhere: who reads them has other folders.
pub fn without_folder(mut findings: Vec<Finding>, path: &Path) -> Vec<Finding> {
    let name = path.file_name().map_or_else(String::new, |name| quoted(&name.to_string_lossy()));
    let whole = quoted(&path.display().to_string());
    for fix in findings.iter_mut().flat_map(|finding| &mut finding.fixes) {
        *fix = fix.replace(&whole, &name);
    }
    findings
}

/// What was not seen of a library that nobody called matters to nobody. A line begins with the probe it is of.
fn leave_out_unused(coverage: &mut Coverage, evidence: &Evidence) {
    let is_used = |layer: Layer| {
        let mut of_calls = evidence.sums.iter().filter_map(|sums| evidence.ops.get(&sums.op));
        of_calls.any(|op| op.layer == layer)
            || (layer == Layer::Nccl && !(evidence.collectives.is_empty() && evidence.in_flight.is_empty()))
    };
    let unused: Vec<&str> =
        [Layer::Nccl, Layer::Hip].into_iter().filter(|layer| !is_used(*layer)).map(Layer::name).collect();
    let is_of_used =
        |line: &String| line.split_whitespace().next().is_none_or(|probe| !unused.contains(&probe));
    coverage.degraded.retain(is_of_used);
    coverage.unattached.retain(is_of_used);
}

/// What does not depend on the time looked at.
fn of_trace(evidence: &Evidence) -> Evidence {
    Evidence {
        node: evidence.node.clone(),
        ops: evidence.ops.clone(),
        processes: evidence.processes.clone(),
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_cause::evidence::OpSums;
    use gpuwhy_model::{Family, OpId, OpInfo, Role};

    fn called(layer: Layer, name: &str) -> Evidence {
        let op = OpInfo {
            id: OpId(1),
            name: name.into(),
            layer,
            family: Family::Other,
            waits_for_gpu: false,
            role: Role::None,
        };
        let sums = vec![OpSums { op: name.into(), ..OpSums::default() }];
        Evidence { ops: [(name.to_string(), op)].into(), sums, ..Evidence::default() }
    }

    #[test]
    fn what_was_not_seen_of_a_library_that_nobody_called_is_left_out() {
        let dear = "nccl ncclBcast in /lib/libnccl.so.2: its first instructions must be single-stepped";
        let late = "cuda * in /lib/libcudart.so.13: attached 48.1ms after process 7 mapped it";
        let absent = "hip hipLaunchKernel in /opt/libamdhip64.so: refused";
        let whole = || Coverage {
            degraded: vec![dear.into(), late.into()],
            unattached: vec![absent.into()],
            ..Coverage::default()
        };
        let left = |evidence: &Evidence| {
            let mut coverage = whole();
            leave_out_unused(&mut coverage, evidence);
            (coverage.degraded, coverage.unattached)
        };
        assert_eq!(left(&called(Layer::Cuda, "cuLaunchKernel")), (vec![late.to_string()], vec![]));
        let all = (whole().degraded, vec![]);
        assert_eq!(left(&called(Layer::Nccl, "ncclAllReduce")), all, "it was called");
        let of_hip = (vec![late.to_string()], whole().unattached);
        assert_eq!(left(&called(Layer::Hip, "hipLaunchKernel")), of_hip);
    }
}
