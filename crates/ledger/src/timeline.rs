//! A batch in the order of time. Its records come from several rings, so they are in order only by ring.

use crate::ops::Ops;
use gpuwhy_model::{Batch, Call, NcclCall, ProcessEventKind, Role};
use std::collections::BTreeMap;

/// Records of one moment reach the ledger at most this far apart: rings are drained many times a second.
pub(crate) const LATE_NS: u64 = 1_000_000_000;

/// From the beginning of a call to its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl Span {
    pub(crate) fn of(call: &Call) -> Self {
        Span { start_ns: call.start_ns, end_ns: call.start_ns.saturating_add(call.duration_ns) }
    }

    pub(crate) fn duration_ns(self) -> u64 {
        self.end_ns - self.start_ns
    }
}

#[derive(Debug)]
pub(crate) enum What<'a> {
    Call(&'a Call),
    /// It came before, when what it is about was not known yet.
    Again(&'a Call),
    Collective(&'a NcclCall),
    /// The process ended, or became another program.
    End(u32),
}

#[derive(Debug)]
pub(crate) struct Moment<'a> {
    /// When it took effect: calls do at their return.
    pub(crate) at_ns: u64,
    start_ns: u64,
    pub(crate) what: What<'a>,
}

/// What of a batch the ledger follows call by call, with what was held back before, in the order of its effects.
pub(crate) fn timeline<'a>(batch: &'a Batch, held: &'a [Call], ops: &Ops) -> Vec<Moment<'a>> {
    let ends = ends(batch);
    let moment = |call: &Call, what| {
        let span = Span::of(call);
        // A process's calls come before its end, whatever the clocks of two CPUs say.
        let end = ends.get(&call.pid).and_then(|ends| ends.iter().find(|end_ns| **end_ns >= span.start_ns));
        let at_ns = end.map_or(span.end_ns, |end_ns| span.end_ns.min(*end_ns));
        Moment { at_ns, start_ns: span.start_ns, what }
    };
    let mut moments: Vec<Moment> = held.iter().map(|call| moment(call, What::Again(call))).collect();
    let calls = batch.calls.iter().filter(|call| matters(call, ops));
    moments.extend(calls.map(|call| moment(call, What::Call(call))));
    moments.extend(batch.nccl_calls.iter().map(|nccl| moment(&nccl.call, What::Collective(nccl))));
    for (pid, ends) in &ends {
        let end = |at_ns: &u64| Moment { at_ns: *at_ns, start_ns: u64::MAX, what: What::End(*pid) };
        moments.extend(ends.iter().map(end));
    }
    moments.sort_by_key(|moment| (moment.at_ns, moment.start_ns));
    moments
}

/// Most calls are launches, copies and waits that change nothing the ledger keeps.
fn matters(call: &Call, ops: &Ops) -> bool {
    match ops.get(call.op).role {
        Role::Launch | Role::GraphLaunch | Role::Submit => call.capture != 0 || call.first,
        Role::None
        | Role::SyncStream
        | Role::SyncEvent
        | Role::SyncDevice
        | Role::EventRecord
        | Role::EventQuery
        | Role::StreamQuery
        | Role::StreamWait
        | Role::SetDevice => false,
        _ => true,
    }
}

/// When processes ended, each one's ends in order.
fn ends(batch: &Batch) -> BTreeMap<u32, Vec<u64>> {
    let mut ends: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in &batch.process_events {
        if matches!(event.kind, ProcessEventKind::Exit | ProcessEventKind::Exec) {
            ends.entry(event.pid).or_default().push(event.time_ns);
        }
    }
    for ends in ends.values_mut() {
        ends.sort_unstable();
    }
    ends
}

/// The latest time in a batch.
pub(crate) fn newest_ns(batch: &Batch) -> u64 {
    let calls = batch.calls.iter().map(|call| Span::of(call).end_ns);
    let nccl_calls = batch.nccl_calls.iter().map(|nccl| Span::of(&nccl.call).end_ns);
    let windows = batch.windows.iter().map(|window| window.window_start_ns.saturating_add(window.window_ns));
    let events = batch.process_events.iter().map(|event| event.time_ns);
    let completions = batch.completions.iter().map(|completion| completion.time_ns);
    let streams = batch.streams.iter().map(|stream| stream.time_ns);
    let counts = batch.launch_counts.iter().map(|count| count.time_ns);
    let in_flight = batch.in_flight.iter().flatten().map(|call| call.seen_ns);
    calls
        .chain(nccl_calls)
        .chain(windows)
        .chain(events)
        .chain(completions)
        .chain(streams)
        .chain(counts)
        .chain(in_flight)
        .max()
        .unwrap_or(0)
}
