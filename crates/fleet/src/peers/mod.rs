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
use gpuwhy_cohort::shares::{Sharing, Tenant};
use gpuwhy_cohort::{Autopsy, Cohorts, Limits, Threshold, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Ranks without a job are peers of each other.
const NO_JOB: &str = "default";
/// The ranks of a cluster are judged so often where that takes little, and less often where there are many.
const JUDGE_EVERY: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_secs(10);

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
    /// Clusters of which pushes were turned away since the last judgement.
    turned_away: Mutex<BTreeSet<Arc<str>>>,
    /// For long at a time only where nobody waits.
    inner: Mutex<Inner>,
    /// What the last judgement of each cluster said.
    reported: Mutex<BTreeMap<String, Arc<Reported>>>,
}

#[derive(Debug)]
struct Delivery {
    batch: Arc<Batch>,
    now: Now,
    sender: Tenant,
    /// Room in memory, until it is looked at.
    _taken: Taken,
}

#[derive(Debug)]
struct Inner {
    cohorts: Cohorts,
    /// By cluster, what was said already, so that it is written down once.
    message: BTreeMap<String, HashSet<String>>,
    /// When each cluster is judged next, by the clock that cannot be set.
    due_ns: BTreeMap<String, i64>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner { cohorts: Cohorts::new(Limits::default()), message: BTreeMap::new(), due_ns: BTreeMap::new() }
    }
}

/// What the last judgement of a cluster said.
#[derive(Debug, Default)]
struct Reported {
    /// By job.
    thresholds: BTreeMap<String, Threshold>,
    verdicts: Vec<Verdict>,
    hangs: Vec<Autopsy>,
    hang_after_ns: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    /// Several tenants are held to their shares.
    pub fn new(sharing: Sharing) -> Peers {
        let cohorts = Cohorts::new(Limits { sharing, ..Limits::default() });
        Peers { inner: Mutex::new(Inner { cohorts, ..Inner::default() }), ..Peers::default() }
    }

    /// Puts a push down, to be looked at soon.
    pub(crate) fn give(&self, batch: Arc<Batch>, now: Now, sender: Tenant, taken: Taken) {
        lock(&self.inbox).push(Delivery { batch, now, sender, _taken: taken });
    }

    /// A push of these clusters was told to come again.
    pub(crate) fn turned_away(&self, clusters: Vec<Arc<str>>) {
        lock(&self.turned_away).extend(clusters);
    }

    /// Looks at what was put down.
    pub(crate) fn absorb(&self) {
        let waiting = std::mem::take(&mut *lock(&self.inbox));
        let mut inner = lock(&self.inner);
        for delivery in waiting {
            inner.cohorts.set_token(&delivery.sender);
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

    fn reported(&self, cluster: &str) -> Option<Arc<Reported>> {
        lock(&self.reported).get(cluster).cloned()
    }

    /// Of these clusters, or of all.
    fn reported_of(&self, clusters: Option<&[String]>) -> Vec<Arc<Reported>> {
        let reported = lock(&self.reported);
        match clusters {
            Some(clusters) => clusters.iter().filter_map(|cluster| reported.get(cluster).cloned()).collect(),
            None => reported.values().cloned().collect(),
        }
    }

    /// For the cohort of a push.
    pub fn advice(&self, batch: &Batch) -> Option<Advice> {
        let events = batch.events.iter().map(|event| &event.origin);
        let mut origins = events.chain(batch.collectives.iter().map(|collective| &collective.origin));
        let origin = origins.find(|origin| origin.rank.is_some() || origin.job.is_some())?;
        let job = origin.job.as_deref().unwrap_or(NO_JOB);
        let threshold = self.reported(&origin.cluster)?.thresholds.get(job)?.clone();
        Some(threshold.into())
    }

    /// For all cohorts of a cluster, or one.
    pub(crate) fn thresholds(&self, cluster: &str, job: Option<&str>) -> Vec<Threshold> {
        let reported = self.reported(cluster);
        let jobs = reported.iter().flat_map(|reported| &reported.thresholds);
        jobs.filter(|(name, _)| job.is_none_or(|job| job == *name))
            .map(|(_, reported)| reported.clone())
            .collect()
    }

    /// What is said of these clusters.
    pub(crate) fn verdicts(&self, clusters: Option<&[String]>, job: Option<&str>) -> Vec<Verdict> {
        let reported = self.reported_of(clusters);
        let all = reported.iter().flat_map(|reported| &reported.verdicts);
        all.filter(|message| job.is_none_or(|job| job == message.job)).cloned().collect()
    }

    pub(crate) fn autopsies(&self, clusters: Option<&[String]>, job: Option<&str>) -> Vec<Autopsy> {
        let reported = self.reported_of(clusters);
        let all = reported.iter().flat_map(|reported| &reported.hangs);
        all.filter(|hang| job.is_none_or(|job| job == hang.job)).cloned().collect()
    }

    /// How long a collective of these clusters goes on before it is said to hang, where that is longer than usual.
    pub(crate) fn patience(&self, clusters: Option<&[String]>) -> Option<Duration> {
        let after_ns = self.reported_of(clusters).iter().map(|reported| reported.hang_after_ns).max()?;
        (after_ns > Limits::default().hang_ns).then(|| Duration::from_nanos(after_ns))
    }

    /// Judges the clusters whose time it is, and gives what is new to be written down. One that takes long is judged less
    /// often: the others do not wait for it.
    pub(crate) fn judge(&self, now: Now) -> Vec<Found> {
        self.absorb();
        for cluster in std::mem::take(&mut *lock(&self.turned_away)) {
            lock(&self.inner).cohorts.turned_away(&cluster, now.steady_ns as u64);
        }
        let mut found = Vec::new();
        for cluster in self.due(now) {
            let began = Instant::now();
            found.extend(self.judge_cluster(&cluster, now));
            let next_ns = now.steady_ns + pause(began.elapsed()).as_nanos() as i64;
            lock(&self.inner).due_ns.insert(cluster, next_ns);
        }
        found
    }

    /// Those that have waited for longest first.
    fn due(&self, now: Now) -> Vec<String> {
        let mut inner = lock(&self.inner);
        let known: BTreeSet<String> = inner.cohorts.jobs().map(|(cluster, _)| cluster.to_string()).collect();
        inner.due_ns.retain(|cluster, _| known.contains(cluster));
        inner.message.retain(|cluster, _| known.contains(cluster));
        lock(&self.reported).retain(|cluster, _| known.contains(cluster));
        let due = |cluster: &String| inner.due_ns.get(cluster).copied().unwrap_or(i64::MIN);
        let mut due: Vec<(i64, String)> = known.into_iter().map(|cluster| (due(&cluster), cluster)).collect();
        due.retain(|(due_ns, _)| *due_ns <= now.steady_ns);
        due.sort();
        due.into_iter().map(|(_, cluster)| cluster).collect()
    }

    fn judge_cluster(&self, cluster: &str, now: Now) -> Vec<Found> {
        let now_ns = now.steady_ns as u64;
        let mut inner = lock(&self.inner);
        let verdicts = inner.cohorts.judge_cluster(cluster, now_ns);
        let hang_after_ns = inner.cohorts.hang_after_ns(cluster, now_ns);
        let hangs = inner.cohorts.autopsies(cluster, None, now_ns);
        let jobs: Vec<&str> =
            inner.cohorts.jobs().filter(|(of, _)| *of == cluster).map(|(_, job)| job).collect();
        let thresholds = jobs
            .into_iter()
            .filter_map(|job| Some((job.to_string(), inner.cohorts.threshold(cluster, Some(job))?)));
        let reported = Reported { thresholds: thresholds.collect(), verdicts, hangs, hang_after_ns };
        let verdicts = reported.verdicts.iter().map(|verdict| of_verdict(verdict, now.wall_ns));
        let found: Vec<(String, Found)> =
            verdicts.chain(reported.hangs.iter().map(|hang| of_autopsy(hang, now.wall_ns))).collect();
        let message: HashSet<String> = found.iter().map(|(key, _)| key.clone()).collect();
        let before = inner.message.insert(cluster.into(), message).unwrap_or_default();
        drop(inner);
        lock(&self.reported).insert(cluster.into(), Arc::new(reported));
        found.into_iter().filter(|(key, _)| !before.contains(key)).map(|(_, found)| found).collect()
    }
}

/// From one judgement of a cluster to the next, where the last took so long: a tenth of the time at most.
fn pause(took: Duration) -> Duration {
    (took * 10).clamp(*JUDGE_EVERY.start(), *JUDGE_EVERY.end())
}
