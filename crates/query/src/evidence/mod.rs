//! Reads from a trace what `explain` looks at: sums where sums will do, and of millions of rows a part that does not
//! depend on their order.

mod calls;
mod gpu;
mod host;
mod kept;
mod marks;
mod ranks;
pub(crate) mod row;
mod stacks;

use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_model::Span;
use gpuwhy_store::{Filter, Reader};

/// What happened in a time; `per_process`: the tails of each process, too.
pub(crate) fn gather(reader: &Reader, span: Span, per_process: bool) -> Result<Evidence, QueryError> {
    // A window that began before holds calls of the time, too; the end is part of it.
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
    let filter = Filter { from_ns: Some(times[0]), to_ns: Some(times[1]), ..Filter::default() };
    if !reader.origin().has_blame() {
        calls::sums(reader, &filter, &mut evidence)?;
        evidence.stored = std::mem::take(&mut evidence.sums);
        calls::foreign(reader, &filter, &mut evidence)?;
        return Ok(evidence);
    }
    calls::sums(reader, &filter, &mut evidence)?;
    calls::bills(reader, times, &mut evidence)?;
    kept::kept(reader, times, per_process, &mut evidence)?;
    calls::cold(reader, times, &mut evidence)?;
    host::waits(reader, times, &mut evidence)?;
    host::wait_sites(reader, times, &mut evidence)?;
    host::others(reader, times, &mut evidence)?;
    host::places(reader, times, &mut evidence)?;
    gpu::work(reader, times, &mut evidence)?;
    gpu::memory(reader, times, &mut evidence)?;
    gpu::counters(reader, times, &mut evidence)?;
    ranks::collectives(reader, times, &mut evidence)?;
    ranks::in_flight(reader, times, &mut evidence)?;
    marks::marks(reader, times, &mut evidence)?;
    marks::servers(reader, times, &mut evidence)?;
    marks::losses(reader, times, &mut evidence)?;
    stacks::frames(reader, &mut evidence)?;
    Ok(evidence)
}
