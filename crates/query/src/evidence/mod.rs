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
mod texts;

pub(crate) use calls::blame;
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

/// Adds what happened in a phase of each process; `per_process`: the tails of each process, too. `beside` reads the same file, at the
/// same time where there is one.
pub(crate) fn gather(
    reader: &Reader,
    beside: Option<&mut Reader>,
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
    let host = std::thread::scope(|threads| {
        let beside = beside.map(|beside| threads.spawn(move || waits(beside, times, scope)));
        calls::sums(reader, &filter, scope, evidence)?;
        kept::kept(reader, times, scope, per_process, evidence)?;
        calls::cold(reader, times, scope, evidence)?;
        gpu::work(reader, times, scope, evidence)?;
        match beside.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(host)) => host,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => waits(reader, times, scope),
        }
    })?;
    evidence.attribution = host.attribution;
    evidence.waits = host.waits;
    evidence.wait_sites = host.wait_sites;
    host::others(reader, times, evidence)?;
    host::places(reader, times, evidence)?;
    gpu::kernels(reader, times, evidence)?;
    gpu::memory(reader, times, evidence)?;
    gpu::counters(reader, times, evidence)?;
    ranks::collectives(reader, times, evidence)?;
    ranks::unordered(reader, times, evidence)?;
    ranks::in_flight(reader, times, evidence)?;
    marks::servers(reader, times, evidence)?;
    marks::losses(reader, times, evidence)?;
    stacks::frames(reader, evidence)
}

/// What threads waited for, and where.
fn waits(reader: &Reader, times: [u64; 2], scope: &Scope) -> Result<Evidence, QueryError> {
    let mut evidence = Evidence::default();
    blame::attribution(reader, times, scope, &mut evidence)?;
    host::waits(reader, times, scope, &mut evidence)?;
    host::wait_sites(reader, times, scope, &mut evidence)?;
    Ok(evidence)
}
