//! Peers compared: what comes in goes to the cohorts, a push's answer says what its cohort's threshold is, and all
//! ranks are judged every now and then.
//!
//! Whoever pushes or asks never waits for a judgement: pushes are put down to be taken up soon, and answers are what the last
//! judgement said.

mod found;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use take::take_collective;

use crate::clock::Now;
use crate::ingest::Taken;
use crate::point::{Batch, Collective, Found};
use found::{of_autopsy, of_verdict};
use gpuwhy_cohort::{Autopsy, Cohorts, Limits, Threshold, Verdict};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ranks without a job are peers of each other.
const NO_JOB: &str = "default";

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

#[derive(Debug, Default)]
pub struct Peers {
    /// Pushes that were taken, and not yet looked at.
    inbox: Mutex<Vec<Delivery>>,
    /// Some were turned away since the last judgement.
    turned_away: AtomicBool,
    /// For long at a time only where nobody waits.
    inner: Mutex<Inner>,
    told: Mutex<Arc<Told>>,
}

#[derive(Debug)]
struct Delivery {
    batch: Arc<Batch>,
    now: Now,
    /// Room in memory, until it is looked at.
    _taken: Taken,
}

#[derive(Debug)]
struct Inner {
    cohorts: Cohorts,
    /// What was said already, so that it is written down once.
    said: HashSet<String>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner { cohorts: Cohorts::new(Limits::default()), said: HashSet::new() }
    }
}

/// What the last judgement said.
#[derive(Debug, Default)]
struct Told {
    /// By cluster and job.
    thresholds: BTreeMap<String, BTreeMap<String, Threshold>>,
    verdicts: Vec<Verdict>,
    hangs: Vec<Autopsy>,
    hang_after_ns: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    /// Puts a push down, to be looked at soon.
    pub(crate) fn give(&self, batch: Arc<Batch>, now: Now, taken: Taken) {
        lock(&self.inbox).push(Delivery { batch, now, _taken: taken });
    }

    /// A push was told to come again.
    pub(crate) fn turned_away(&self) {
        self.turned_away.store(true, Ordering::Relaxed);
    }

    /// Looks at what was put down.
    pub(crate) fn absorb(&self) {
        let waiting = std::mem::take(&mut *lock(&self.inbox));
        let mut inner = lock(&self.inner);
        for delivery in waiting {
            take::take(&mut inner.cohorts, &delivery.batch, delivery.now);
        }
    }

    /// What was stored lately, for a server that begins: a hang goes on while nobody looks.
    pub(crate) fn remember(&self, calls: &[Collective]) {
        let mut inner = lock(&self.inner);
        for call in calls {
            take_collective(&mut inner.cohorts, call, Now::read().steady_ns as u64);
        }
    }

    fn told(&self) -> Arc<Told> {
        lock(&self.told).clone()
    }

    /// For the cohort of a push.
    pub fn advice(&self, batch: &Batch) -> Option<Advice> {
        let events = batch.events.iter().map(|event| &event.origin);
        let mut origins = events.chain(batch.collectives.iter().map(|collective| &collective.origin));
        let origin = origins.find(|origin| origin.rank.is_some() || origin.job.is_some())?;
        let job = origin.job.as_deref().unwrap_or(NO_JOB);
        let threshold = self.told().thresholds.get(&*origin.cluster)?.get(job)?.clone();
        Some(threshold.into())
    }

    /// For all cohorts of a cluster, or one.
    pub(crate) fn thresholds(&self, cluster: &str, job: Option<&str>) -> Vec<Threshold> {
        let told = self.told();
        let jobs = told.thresholds.get(cluster).into_iter().flatten();
        jobs.filter(|(name, _)| job.is_none_or(|job| job == *name)).map(|(_, told)| told.clone()).collect()
    }

    /// What is said of these clusters.
    pub(crate) fn verdicts(&self, clusters: Option<&[String]>, job: Option<&str>) -> Vec<Verdict> {
        let told = self.told();
        let found = told.verdicts.iter().filter(|said| is_visible(clusters, job, &said.cluster, &said.job));
        found.cloned().collect()
    }

    pub(crate) fn autopsies(&self, clusters: Option<&[String]>, job: Option<&str>) -> Vec<Autopsy> {
        let told = self.told();
        let found = told.hangs.iter().filter(|hang| is_visible(clusters, job, &hang.cluster, &hang.job));
        found.cloned().collect()
    }

    /// How long a collective goes on before it is said to hang, where that is longer than usual.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let after_ns = self.told().hang_after_ns;
        (after_ns > Limits::default().hang_ns).then(|| Duration::from_nanos(after_ns))
    }

    /// Judges all ranks, and gives what is new to be written down.
    pub(crate) fn judge(&self, now: Now) -> Vec<Found> {
        self.absorb();
        let now_ns = now.steady_ns as u64;
        let mut inner = lock(&self.inner);
        if self.turned_away.swap(false, Ordering::Relaxed) {
            inner.cohorts.turned_away(now_ns);
        }
        let verdicts = inner.cohorts.judge(now_ns);
        let hang_after_ns = inner.cohorts.hang_after_ns(now_ns);
        let mut told = Told { verdicts, hang_after_ns, ..Told::default() };
        for (cluster, job) in inner.cohorts.jobs() {
            let threshold = inner.cohorts.threshold(cluster, Some(job));
            let jobs = told.thresholds.entry(cluster.into()).or_default();
            jobs.extend(threshold.map(|threshold| (job.to_string(), threshold)));
        }
        for cluster in told.thresholds.keys() {
            told.hangs.extend(inner.cohorts.autopsies(cluster, None, now_ns));
        }
        let verdicts = told.verdicts.iter().map(|verdict| of_verdict(verdict, now.wall_ns));
        let found: Vec<(String, Found)> =
            verdicts.chain(told.hangs.iter().map(|hang| of_autopsy(hang, now.wall_ns))).collect();
        let said: HashSet<String> = found.iter().map(|(key, _)| key.clone()).collect();
        let before = std::mem::replace(&mut inner.said, said);
        drop(inner);
        *lock(&self.told) = Arc::new(told);
        found.into_iter().filter(|(key, _)| !before.contains(key)).map(|(_, found)| found).collect()
    }
}

fn is_visible(clusters: Option<&[String]>, of_job: Option<&str>, cluster: &str, job: &str) -> bool {
    clusters.is_none_or(|clusters| clusters.iter().any(|visible| visible == cluster))
        && of_job.is_none_or(|of| of == job)
}
