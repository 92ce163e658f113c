//! Peers compared: what comes in goes to the cohorts, a push's answer says what its cohort's threshold is, and once a
//! second all ranks are judged.

use crate::point::{Batch, Collective, Event, Found, Origin};
use gpuwhy_cohort::collectives::Stuck;
use gpuwhy_cohort::{
    Autopsy, Cohorts, Limits, Place, Record, Sample, Signal, Source, Threshold, Verdict, VerdictKind,
};
use gpuwhy_model::Cause;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ranks without a job are peers of each other.
const NO_JOB: &str = "default";
/// What is older when it comes is history, as after a time without a connection: it says nothing of now.
const FRESH_NS: i64 = 60_000_000_000;
const HANG: &str = "gpuwhy.hang";
const PLACES: &str = "gpuwhy.places";
/// Lines of one report that are looked at.
const MOST_PLACES: usize = 16;
const BLAME: &str = "gpuwhy.rank.blame_ratio";

/// What a node is told with the answer to its push.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    pub threshold: Option<f64>,
    pub quorum_met: bool,
    pub cohort: String,
}

impl From<Threshold> for Advice {
    fn from(threshold: Threshold) -> Advice {
        Advice { threshold: threshold.value, quorum_met: threshold.quorum_met, cohort: threshold.cohort }
    }
}

#[derive(Debug)]
pub struct Peers(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    cohorts: Cohorts,
    /// What was said already, so that it is written down once.
    said: HashSet<String>,
}

impl Default for Peers {
    fn default() -> Peers {
        Peers(Mutex::new(Inner { cohorts: Cohorts::new(Limits::default()), said: HashSet::new() }))
    }
}

impl Peers {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, batch: &Batch) {
        let seen_ns = batch.received_ns;
        let mut inner = self.lock();
        for event in &batch.events {
            if event.timestamp_ns + FRESH_NS > seen_ns {
                take_event(&mut inner.cohorts, event, seen_ns as u64);
            }
        }
        for collective in &batch.collectives {
            if collective.start_ns + FRESH_NS > seen_ns || collective.duration_ns.is_none() {
                take_collective(&mut inner.cohorts, collective, seen_ns as u64);
            }
        }
    }

    /// What was stored lately, for a server that begins: a hang goes on while nobody looks.
    pub(crate) fn remember(&self, calls: &[Collective], now_ns: i64) {
        let mut inner = self.lock();
        for call in calls {
            take_collective(&mut inner.cohorts, call, now_ns as u64);
        }
    }

    /// For the cohort of a push.
    pub fn advice(&self, batch: &Batch) -> Option<Advice> {
        let events = batch.events.iter().map(|event| &event.origin);
        let mut origins = events.chain(batch.collectives.iter().map(|collective| &collective.origin));
        let origin = origins.find(|origin| origin.rank.is_some() || origin.job.is_some())?;
        let job = origin.job.as_deref().unwrap_or(NO_JOB);
        self.lock().cohorts.threshold(&origin.cluster, Some(job)).map(Advice::from)
    }

    /// For all cohorts of a cluster, or one.
    pub(crate) fn thresholds(&self, cluster: &str, job: Option<&str>) -> Vec<Threshold> {
        let inner = self.lock();
        let jobs =
            inner.cohorts.jobs().filter(|(of, name)| *of == cluster && job.is_none_or(|job| job == *name));
        jobs.filter_map(|(_, name)| inner.cohorts.threshold(cluster, Some(name))).collect()
    }

    /// What was said at the last judgement, of these clusters.
    pub(crate) fn verdicts(&self, clusters: Option<&[String]>, job: Option<&str>) -> Vec<Verdict> {
        let inner = self.lock();
        let found = visible(&inner.cohorts, clusters);
        found.iter().flat_map(|cluster| inner.cohorts.standing(cluster, job)).collect()
    }

    pub(crate) fn autopsies(
        &self,
        clusters: Option<&[String]>,
        job: Option<&str>,
        now_ns: i64,
    ) -> Vec<Autopsy> {
        let inner = self.lock();
        let found = visible(&inner.cohorts, clusters);
        found.iter().flat_map(|cluster| inner.cohorts.autopsies(cluster, job, now_ns as u64)).collect()
    }

    /// Judges all ranks, and gives what is new to be written down.
    pub(crate) fn judge(&self, now_ns: i64) -> Vec<Found> {
        let mut inner = self.lock();
        let verdicts = inner.cohorts.judge(now_ns as u64);
        let clusters = visible(&inner.cohorts, None);
        let hangs: Vec<Autopsy> = clusters
            .iter()
            .flat_map(|cluster| inner.cohorts.autopsies(cluster, None, now_ns as u64))
            .collect();
        let found = verdicts.iter().map(|verdict| of_verdict(verdict, now_ns));
        let found: Vec<(String, Found)> =
            found.chain(hangs.iter().map(|hang| of_autopsy(hang, now_ns))).collect();
        let said: HashSet<String> = found.iter().map(|(key, _)| key.clone()).collect();
        let before = std::mem::replace(&mut inner.said, said);
        found.into_iter().filter(|(key, _)| !before.contains(key)).map(|(_, found)| found).collect()
    }
}

/// Each once.
fn visible(cohorts: &Cohorts, clusters: Option<&[String]>) -> Vec<String> {
    let all = cohorts.jobs().map(|(cluster, _)| cluster.to_string());
    let mut found: Vec<String> =
        all.filter(|cluster| clusters.is_none_or(|clusters| clusters.contains(cluster))).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// As the cohorts know it.
pub(crate) fn source(origin: &Origin) -> Source<'_> {
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
    };
    // How many ranks the job has is told by its gauges; a communicator may stand in here.
    cohorts.collective(&Source { nranks: None, ..source }, &record, seen_ns);
}

/// Maps of class, line and share in the body.
fn take_places(cohorts: &mut Cohorts, event: &Event, seen_ns: u64) {
    let attrs: Value =
        event.attrs.as_deref().and_then(|attrs| serde_json::from_str(attrs).ok()).unwrap_or_default();
    let Some(body) = attrs.get("body").and_then(Value::as_array) else { return };
    let places: Vec<Place<'_>> = body.iter().take(MOST_PLACES).filter_map(place).collect();
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

fn of_verdict(verdict: &Verdict, now_ns: i64) -> (String, Found) {
    let class = match verdict.kind {
        VerdictKind::Straggler => "rank.straggler",
        VerdictKind::Regression => verdict.cause.as_ref().map_or("unknown", |cause| cause.class.name()),
    };
    let key = format!("{:?} {} {} {:?}", verdict.kind, verdict.cluster, verdict.job, verdict.rank);
    let origin = origin(&verdict.cluster, &verdict.job, verdict.node.as_deref(), verdict.rank);
    (key, found(origin, class, &verdict.said, &json!(verdict), now_ns))
}

fn of_autopsy(hang: &Autopsy, now_ns: i64) -> (String, Found) {
    let key = format!("hang {} {} {} {}", hang.cluster, hang.job, hang.comm, hang.seq);
    let culprit = hang.culprits.first();
    let node = culprit.and_then(|culprit| culprit.node.as_deref());
    let origin = origin(&hang.cluster, &hang.job, node, culprit.map(|culprit| culprit.rank));
    (key, found(origin, "rank.hang", &hang.said, &json!(hang), now_ns))
}

fn origin(cluster: &str, job: &str, node: Option<&str>, rank: Option<u32>) -> Origin {
    Origin {
        cluster: cluster.into(),
        node: node.unwrap_or("").into(),
        job: Some(job.into()),
        rank: rank.and_then(|rank| i32::try_from(rank).ok()),
        nranks: None,
    }
}

fn found(origin: Origin, class: &str, title: &str, whole: &Value, now_ns: i64) -> Found {
    Found {
        timestamp_ns: now_ns,
        origin,
        source: "fleet",
        class: Some(class.into()),
        severity: Some("high".into()),
        title: title.into(),
        pid: None,
        finding: Some(Arc::from(whole.to_string())),
    }
}
