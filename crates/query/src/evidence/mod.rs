//! Reads from a trace what `explain` looks at: sums where sums will do, and of millions of rows a part that does not
//! depend on their order.

mod activity;
mod beats;
mod blame;
mod calls;
mod gpu;
mod host;
mod kept;
mod marks;
mod ranks;
pub(crate) mod row;
mod scope;
mod stacks;

pub(crate) use scope::Scope;

use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_model::Span;
use gpuwhy_store::{Filter, Reader};

/// The threads of the time, for the phases of each process and their paths.
pub(crate) fn threads(reader: &Reader, span: Span) -> Result<Evidence, QueryError> {
    let times = [span.start_ns, span.end_ns.saturating_add(1)];
    let sessions = reader.sessions()?;
    let mut evidence = Evidence {
        span,
        node: sessions.last().map(|session| session.info.host.clone()).filter(|host| !host.is_empty()),
        coverage: reader.coverage(Some(span.start_ns))?,
        ops: reader.ops()?.into_iter().map(|op| (op.name.clone(), op)).collect(),
        processes: reader.processes()?,
        ..Evidence::default()
    };
    if reader.origin().has_blame() {
        marks::marks(reader, times, &mut evidence)?;
        activity::activity(reader, times, &mut evidence)?;
    }
    Ok(evidence)
}

/// Adds what happened in a phase of each process; `per_process`: the tails of each process, too.
pub(crate) fn gather(
    reader: &Reader,
    scope: &Scope,
    per_process: bool,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let span = evidence.span;
    // A window that began before holds calls of the time, too; the end is part of it.
    let times = [span.start_ns, span.end_ns.saturating_add(1)];
    let filter = Filter { from_ns: Some(times[0]), to_ns: Some(times[1]), ..Filter::default() };
    if !reader.origin().has_blame() {
        calls::sums(reader, &filter, scope, evidence)?;
        evidence.stored = std::mem::take(&mut evidence.sums);
        calls::foreign(reader, &filter, evidence)?;
        return Ok(());
    }
    evidence.phase = scope.name().map(Into::into);
    calls::sums(reader, &filter, scope, evidence)?;
    blame::bills(reader, times, scope, evidence)?;
    kept::kept(reader, times, scope, per_process, evidence)?;
    calls::cold(reader, times, scope, evidence)?;
    host::waits(reader, times, scope, evidence)?;
    host::wait_sites(reader, times, scope, evidence)?;
    host::others(reader, times, evidence)?;
    host::places(reader, times, evidence)?;
    gpu::work(reader, times, scope, evidence)?;
    gpu::memory(reader, times, evidence)?;
    gpu::counters(reader, times, evidence)?;
    ranks::collectives(reader, times, evidence)?;
    ranks::in_flight(reader, times, evidence)?;
    marks::servers(reader, times, evidence)?;
    marks::losses(reader, times, evidence)?;
    stacks::frames(reader, evidence)
}
