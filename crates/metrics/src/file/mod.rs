//! A trace file as OTLP: what a server would have got if it had been pushed while the trace was made, with a point every
//! ten seconds, or fewer of a long one. A request a line, as the OpenTelemetry Collector reads and writes them.

mod rows;

use crate::State;
use crate::otlp::{Histograms, Request, Resource, logs, metrics};
use gpuwhy_query::{ExplainRequest, QueryError, explain, without_folder};
use gpuwhy_store::{Reader, Span, StoreError};
use rows::Rows;
use std::io::Write;

/// From one point of a series to the next, at least.
const STEP_NS: u64 = 10_000_000_000;
/// Points a series has at most: those of a day.
const MAX_STEPS: u64 = 8_640;

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("OTLP could not be written: {0}")]
    Write(#[from] std::io::Error),
    /// Whoever was asked to go on said no.
    #[error("writing OTLP was interrupted")]
    Interrupted,
    #[error("OTLP could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes what a trace has in `span`, or all of it, as OTLP. Says how many points, records and spans those were. `go_on` is
/// told now and then how many calls are done; false stops.
pub fn otlp_of(
    reader: &Reader,
    span: Option<Span>,
    out: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<u64, FileError> {
    let Some(span) = span.map_or_else(|| reader.span(), |span| Ok(Some(span)))? else { return Ok(0) };
    let host = reader.sessions()?.first().map(|session| session.info.host.clone()).unwrap_or_default();
    let resource = Resource::new(&host, &[]);
    let mut rows = Rows::open(reader)?;
    let mut state = State::new(&host, span.start_ns, rows.ops(), true);
    if let Some(spans) = state.spans() {
        spans.keep_all();
    }
    let (mut items, mut calls) = (0, 0);
    let step_ns = STEP_NS.max(span.ns() / MAX_STEPS);
    let mut from_ns = span.start_ns;
    while from_ns <= span.end_ns {
        let to_ns = from_ns.saturating_add(step_ns).min(span.end_ns + 1);
        let (batch, facts) = rows.between(from_ns, to_ns)?;
        state.take(&batch, &facts);
        calls += batch.calls.len() as u64;
        if !go_on(calls) {
            return Err(FileError::Interrupted);
        }
        let is_last = to_ns > span.end_ns;
        let probes = if is_last { rows.probes()? } else { Vec::new() };
        state.see_probes(to_ns - 1, &probes);
        while let Some((line, spans)) = next_spans(&mut state, &resource)? {
            out.write_all(&line)?;
            items += spans;
        }
        if is_last {
            items += write_findings(reader, span, &mut state, &resource, out)?;
        }
        for request in metrics(&state, &resource, Histograms::Explicit) {
            items += write(&request, out)?;
        }
        from_ns = to_ns;
    }
    out.flush()?;
    Ok(items)
}

fn write_findings(
    reader: &Reader,
    span: Span,
    state: &mut State,
    resource: &Resource,
    out: &mut dyn Write,
) -> Result<u64, FileError> {
    let request = ExplainRequest {
        from_ns: Some(span.start_ns),
        to_ns: Some(span.end_ns + 1),
        ..ExplainRequest::default()
    };
    let findings = match explain(reader, &request) {
        Ok(explained) => without_folder(explained.findings, reader.path()),
        // A trace without calls has numbers all the same.
        Err(QueryError::NoData(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let news = state.see_findings(&findings);
    match logs(news, span.end_ns, resource) {
        Some(request) => write(&request, out),
        None => Ok(0),
    }
}

fn next_spans(state: &mut State, resource: &Resource) -> Result<Option<(Vec<u8>, u64)>, FileError> {
    Ok(state.spans().map(|spans| spans.next_line(resource)).transpose()?.flatten())
}

fn write(request: &Request, out: &mut dyn Write) -> Result<u64, FileError> {
    out.write_all(request.json()?.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(request.items())
}
