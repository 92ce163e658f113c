//! What comes in, as the cohorts know it.

use super::NO_JOB;
use crate::clock::Now;
use crate::point::{Batch, Collective, Event, Origin};
use gpuwhy_cohort::collectives::Stuck;
use gpuwhy_cohort::{Cohorts, Place, Record, Sample, Signal, Source};
use gpuwhy_model::Cause;
use serde_json::Value;

/// What is older when it comes is history, as after a time without a connection: it says nothing of now.
const FRESH_NS: i64 = 60_000_000_000;
const HANG: &str = "gpuwhy.hang";
const PLACES: &str = "gpuwhy.places";
/// Lines of one report that are looked at.
const MAX_PLACES: usize = 16;
const BLAME: &str = "gpuwhy.rank.blame_ratio";

/// All of a push that came at that time.
pub(super) fn take(cohorts: &mut Cohorts, batch: &Batch, now: Now) {
    let seen_ns = now.steady_ns as u64;
    let is_fresh = |at_ns: i64| at_ns.saturating_add(FRESH_NS) > now.earliest();
    for event in batch.events.iter().filter(|event| is_fresh(event.timestamp_ns)) {
        take_event(cohorts, event, seen_ns);
    }
    for call in &batch.collectives {
        if is_fresh(call.start_ns) || call.duration_ns.is_none() {
            take_collective(cohorts, call, seen_ns);
        }
    }
}

/// As the cohorts know it.
fn source(origin: &Origin) -> Source<'_> {
    Source {
        cluster: &origin.cluster,
        job: origin.job.as_deref().unwrap_or(NO_JOB),
        node: &origin.node,
        rank: origin.rank.and_then(|rank| u32::try_from(rank).ok()),
        nranks: origin.nranks.and_then(|nranks| u32::try_from(nranks).ok()),
    }
}

fn take_event(cohorts: &mut Cohorts, event: &Event, seen_ns: u64) {
    match &*event.name {
        HANG => return take_hang(cohorts, event, seen_ns),
        PLACES => return take_places(cohorts, event, seen_ns),
        _ => {}
    }
    if !event.name.starts_with("gpuwhy.rank.") {
        return;
    }
    let class = event.attrs.as_deref().filter(|_| &*event.name == BLAME).and_then(class_of);
    let value = event.double.or(event.int.map(|value| value as f64));
    if let (Some(signal), Some(value)) = (Signal::of_metric(&event.name, class), value) {
        cohorts.sample(&Sample { source: source(&event.origin), signal, value, seen_ns });
    }
}

/// The attribute `class`. Causes have no letters that JSON writes otherwise.
fn class_of(attrs: &str) -> Option<&str> {
    let rest = attrs.split_once("\"class\":\"")?.1;
    rest.split_once('"').map(|(class, _)| class)
}

pub(crate) fn take_collective(cohorts: &mut Cohorts, collective: &Collective, seen_ns: u64) {
    let whole = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let small = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
    let source = source(&collective.origin);
    let record = Record {
        comm: &collective.comm_id_hash,
        seq: whole(collective.seq),
        op: &collective.op,
        rank: small(collective.comm_rank).or(source.rank).unwrap_or(0),
        nranks: small(collective.comm_nranks).or(source.nranks).unwrap_or(0),
        count: whole(collective.count).unwrap_or(0),
        datatype: collective.datatype.as_deref().unwrap_or(""),
        reduce_op: collective.reduce_op.as_deref().unwrap_or(""),
        peer: small(collective.peer),
        start_ns: u64::try_from(collective.start_ns).unwrap_or(0),
        duration_ns: whole(collective.duration_ns),
        pid: whole(collective.pid),
    };
    // How many ranks the job has is told by its gauges; a communicator may stand in here.
    cohorts.collective(&Source { nranks: None, ..source }, &record, seen_ns);
}

/// Maps of class, line and share in the body.
fn take_places(cohorts: &mut Cohorts, event: &Event, seen_ns: u64) {
    let attrs: Value =
        event.attrs.as_deref().and_then(|attrs| serde_json::from_str(attrs).ok()).unwrap_or_default();
    let Some(body) = attrs.get("body").and_then(Value::as_array) else { return };
    let places: Vec<Place<'_>> = body.iter().take(MAX_PLACES).filter_map(place).collect();
    cohorts.places(&source(&event.origin), &places, seen_ns);
}

fn place(fields: &Value) -> Option<Place<'_>> {
    let class = fields.get("class")?.as_str()?;
    Some(Place {
        class: *Cause::ALL.iter().find(|cause| cause.name() == class)?,
        line: fields.get("line")?.as_str()?,
        share: fields.get("share")?.as_f64()?,
    })
}

/// Its fields may stand beside the body or in it.
fn take_hang(cohorts: &mut Cohorts, event: &Event, seen_ns: u64) {
    let attrs: Value =
        event.attrs.as_deref().and_then(|attrs| serde_json::from_str(attrs).ok()).unwrap_or_default();
    let get = |key: &str| attrs.get(key).or_else(|| attrs.get("body")?.get(key));
    let stack: Vec<String> = get("stack")
        .and_then(Value::as_array)
        .map(|frames| frames.iter().filter_map(|frame| frame.as_str().map(String::from)).take(128).collect())
        .unwrap_or_default();
    let stuck = Stuck {
        comm: get("comm_id_hash").and_then(Value::as_str),
        seq: get("seq").and_then(Value::as_u64),
        op: get("op").and_then(Value::as_str).unwrap_or("a wait"),
        since_ns: get("since_ns").and_then(Value::as_u64).unwrap_or(event.timestamp_ns as u64),
        stack: &stack,
    };
    cohorts.stuck(&source(&event.origin), &stuck, seen_ns);
}
