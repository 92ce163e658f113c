//! `explain`: what was slow, why, by whom, where in the code, what it cost and what to do.

use crate::evidence::gather;
use crate::since::{from_ns, nothing};
use crate::{QueryError, Trace, TraceRequest, trace};
use gpuwhy_cause::{Idle, ServerReport, Tail};
use gpuwhy_model::{Coverage, Finding, Span};
use gpuwhy_store::Reader;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExplainRequest {
    pub pid: Option<u32>,
    pub op: Option<String>,
    /// As `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// Unix time in nanoseconds.
    pub from_ns: Option<u64>,
    pub to_ns: Option<u64>,
    /// The tails of each process, too.
    pub per_process: bool,
}

/// Its fields are those of `explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    pub trace: TraceInShort,
    pub coverage: Coverage,
    pub findings: Vec<Finding>,
    pub idle: Vec<Idle>,
    pub tail: Vec<Tail>,
    /// Inference servers that were watched meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceInShort {
    pub file: String,
    /// Of what was looked at.
    pub start_ns: u64,
    pub end_ns: u64,
    pub events: u64,
    pub nodes: Vec<String>,
}

pub fn explain(reader: &Reader, request: &ExplainRequest) -> Result<Explained, QueryError> {
    let about = trace(reader, &TraceRequest::default())?;
    let span = span(reader, request, &about)?;
    let evidence = gather(reader, span, request.per_process)?;
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
    let explanation = gpuwhy_cause::explain(&evidence);
    let wanted = |finding: &Finding| {
        request.pid.is_none_or(|pid| finding.pid == Some(pid))
            && request.op.as_ref().is_none_or(|op| finding.op.as_ref() == Some(op))
    };
    Ok(Explained {
        trace: TraceInShort {
            file: about.file,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            events: about.events,
            nodes: about.nodes,
        },
        coverage: evidence.coverage.clone(),
        findings: explanation.findings.into_iter().filter(wanted).collect(),
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
    })
}

/// The time that is asked about: all of the trace, or a part of it.
fn span(reader: &Reader, request: &ExplainRequest, about: &Trace) -> Result<Span, QueryError> {
    let (Some(start_ns), Some(end_ns)) = (about.start_ns, about.end_ns) else {
        return Err(QueryError::NoData("the trace is empty: trace while a process uses the GPU".into()));
    };
    let from = from_ns(reader, request.since.as_deref())?.or(request.from_ns);
    Ok(Span {
        start_ns: from.unwrap_or(start_ns).max(start_ns),
        end_ns: request.to_ns.unwrap_or(end_ns).min(end_ns),
    })
}
