//! All jobs of all clusters: where samples and records come in, and verdicts go out.

use super::job::{Job, Who};
use super::{Limits, Place, Sample, Threshold, Verdict, judge};
use crate::Source;
use crate::collectives::{Autopsy, Clock, CommunicatorReport, Record, Stuck};
use crate::shares::{Shares, Sharing, Tenant};
use std::collections::BTreeMap;

/// Another job takes the place of one that was silent for so long, where there are too many.
const MAKES_ROOM_NS: u64 = 60_000_000_000;
/// And it is looked for no more often than this.
const LOOKS_NS: u64 = 100_000_000;

/// Bounded: see [`Limits`]. Pushing takes constant time, whatever the number of ranks; judging is linear in them.
#[derive(Debug, Clone)]
pub struct Cohorts {
    limits: Limits,
    /// By cluster, then job.
    clusters: BTreeMap<String, BTreeMap<String, Job>>,
    /// Whose token what comes now was pushed with.
    token: Tenant,
    jobs: Held,
    ranks: Held,
    refused: u64,
    /// When it was last looked for a job that can give way, which takes a look at all of them.
    made_room_ns: u64,
    /// When pushes of a cluster were last turned away.
    turned_away_ns: BTreeMap<String, u64>,
}

/// What tenants have of something, by token and by cluster.
#[derive(Debug, Clone, Default)]
struct Held {
    by_token: Shares,
    by_cluster: Shares,
}

impl Held {
    fn new(max: usize, sharing: Sharing) -> Held {
        Held { by_token: Shares::new(max, sharing.tokens), by_cluster: Shares::new(max, sharing.clusters) }
    }

    fn fits(&self, token: &str, cluster: &str) -> bool {
        self.by_token.fits(token, 1) && self.by_cluster.fits(cluster, 1)
    }

    fn take(&mut self, job: &Job) {
        self.by_token.take(&job.token, 1);
        self.by_cluster.take(&job.cluster, 1);
    }

    fn recount<'a>(&mut self, jobs: impl Iterator<Item = (&'a Job, usize)> + Clone) {
        self.by_token.recount(jobs.clone().map(|(job, count)| (&job.token, count)));
        self.by_cluster.recount(jobs.map(|(job, count)| (&job.cluster, count)));
    }
}

impl Default for Cohorts {
    fn default() -> Cohorts {
        Cohorts::new(Limits::default())
    }
}

impl Cohorts {
    pub fn new(limits: Limits) -> Cohorts {
        Cohorts {
            limits,
            clusters: BTreeMap::new(),
            token: "".into(),
            jobs: Held::new(limits.jobs, limits.sharing),
            ranks: Held::new(limits.ranks, limits.sharing),
            refused: 0,
            made_room_ns: 0,
            turned_away_ns: BTreeMap::new(),
        }
    }

    /// What comes from now on was pushed with this token: jobs and ranks that are new are counted for it.
    pub fn set_token(&mut self, token: &Tenant) {
        self.token = token.clone();
    }

    /// One value. False where it was not taken: it is no number, or there are too many jobs or ranks.
    pub fn sample(&mut self, sample: &Sample<'_>) -> bool {
        if !sample.value.is_finite() {
            return false;
        }
        let source = &sample.source;
        let who = source.rank.map_or_else(|| Who::Node(source.node.into()), Who::Rank);
        let Some(job) = self.admit(source, &who, sample.seen_ns) else { return false };
        job.member(&who, source.node, sample.seen_ns).put(sample.signal, sample.value, sample.seen_ns);
        if let Some(rank) = source.rank {
            job.joiner.heard_of(rank, sample.seen_ns);
        }
        true
    }

    /// Where a rank was met between its calls since it last told.
    pub fn places(&mut self, source: &Source<'_>, places: &[Place<'_>], seen_ns: u64) -> bool {
        let who = source.rank.map_or_else(|| Who::Node(source.node.into()), Who::Rank);
        let Some(job) = self.admit(source, &who, seen_ns) else { return false };
        job.member(&who, source.node, seen_ns).places.put(places);
        true
    }

    /// One call of a collective, that the fleet learned of at `seen_ns`.
    pub fn collective(&mut self, source: &Source<'_>, record: &Record<'_>, seen_ns: u64) -> bool {
        let rank = source.rank.unwrap_or(record.rank);
        let Some(job) = self.admit(source, &Who::Rank(rank), seen_ns) else { return false };
        job.collective(rank, source.node, record, seen_ns)
    }

    /// A rank says that it is stuck, and where.
    pub fn stuck(&mut self, source: &Source<'_>, stuck: &Stuck<'_>, seen_ns: u64) -> bool {
        let Some(rank) = source.rank else { return false };
        let Some(job) = self.admit(source, &Who::Rank(rank), seen_ns) else { return false };
        job.stuck(rank, source.node, stuck, seen_ns);
        true
    }

    /// Once a second: compares all ranks, and gives all that is to be said now.
    pub fn judge(&mut self, now_ns: u64) -> Vec<Verdict> {
        let clusters: Vec<String> = self.clusters.keys().cloned().collect();
        clusters.iter().flat_map(|cluster| self.judge_cluster(cluster, now_ns)).collect()
    }

    /// The same for one cluster: no other one need wait for it.
    pub fn judge_cluster(&mut self, cluster: &str, now_ns: u64) -> Vec<Verdict> {
        let (limits, mut verdicts) = (self.limits, Vec::new());
        let Some(jobs) = self.clusters.get_mut(cluster) else { return verdicts };
        jobs.retain(|_, job| now_ns.saturating_sub(job.seen_ns) <= limits.forget_ns);
        for job in jobs.values_mut() {
            judge::judge(job, now_ns, &limits);
            verdicts.extend(job.standing.iter().cloned());
        }
        if jobs.is_empty() {
            self.clusters.remove(cluster);
            self.turned_away_ns.remove(cluster);
        }
        self.count();
        verdicts
    }

    /// What was said at the last judgement.
    pub fn standing(&self, cluster: &str, job: Option<&str>) -> Vec<Verdict> {
        self.chosen(cluster, job).flat_map(|job| job.standing.iter().cloned()).collect()
    }

    /// As of the last judgement. Without a job, that of the cluster's largest one.
    pub fn threshold(&self, cluster: &str, job: Option<&str>) -> Option<Threshold> {
        self.chosen(cluster, job).map(|job| &job.threshold).max_by_key(|threshold| threshold.ranks).cloned()
    }

    /// Pushes of a cluster were told to come again: for a while the end of a collective may be on its way.
    pub fn turned_away(&mut self, cluster: &str, now_ns: u64) {
        if self.clusters.contains_key(cluster) {
            self.turned_away_ns.insert(cluster.into(), now_ns);
        }
    }

    /// What a collective without an end is a hang after.
    pub fn hang_after_ns(&self, cluster: &str, now_ns: u64) -> u64 {
        let since = self.turned_away_ns.get(cluster).map(|then| now_ns.saturating_sub(*then));
        match since.is_some_and(|since| since < self.limits.hang_when_late_ns) {
            true => self.limits.hang_when_late_ns,
            false => self.limits.hang_ns,
        }
    }

    /// Hangs of all jobs of a cluster, or of one.
    pub fn autopsies(&self, cluster: &str, job: Option<&str>, now_ns: u64) -> Vec<Autopsy> {
        let after_ns = self.hang_after_ns(cluster, now_ns);
        let of = |job: &Job| job.joiner.autopsies(&job.cluster, &job.name, now_ns, after_ns);
        self.chosen(cluster, job).flat_map(of).collect()
    }

    /// By how much the clocks of a job's nodes differ, as of the last judgement.
    pub fn clocks(&self, cluster: &str, job: &str) -> Vec<Clock> {
        self.chosen(cluster, Some(job)).flat_map(|job| job.joiner.clocks()).collect()
    }

    /// Arrival order and lateness by rank.
    pub fn communicators(&self, cluster: &str, job: &str) -> Vec<CommunicatorReport> {
        self.chosen(cluster, Some(job)).flat_map(|job| job.joiner.reports()).collect()
    }

    /// (cluster, job) of all that are remembered.
    pub fn jobs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.clusters
            .iter()
            .flat_map(|(cluster, jobs)| jobs.keys().map(move |job| (cluster.as_str(), job.as_str())))
    }

    /// How many samples and records were not taken for want of room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn chosen(&self, cluster: &str, job: Option<&str>) -> impl Iterator<Item = &Job> {
        let jobs = self.clusters.get(cluster);
        let one = job.and_then(|job| jobs?.get(job));
        let all = jobs.filter(|_| job.is_none()).into_iter().flat_map(BTreeMap::values);
        one.into_iter().chain(all)
    }

    fn admit(&mut self, source: &Source<'_>, who: &Who, seen_ns: u64) -> Option<&mut Job> {
        let known = self.clusters.get(source.cluster).and_then(|jobs| jobs.get(source.job));
        let (is_job, is_rank) = (known.is_some(), known.is_some_and(|job| job.members.contains_key(who)));
        // Ranks of a job are counted for whoever pushed it first.
        let token = known.map_or(&self.token, |job| &job.token).clone();
        if !is_job && !self.jobs.fits(&token, source.cluster) {
            self.make_room(source.cluster, seen_ns);
        }
        if !is_job && !self.jobs.fits(&token, source.cluster)
            || !is_rank && !self.ranks.fits(&token, source.cluster)
        {
            self.refused += 1;
            return None;
        }
        if !is_job {
            let jobs = self.clusters.entry(source.cluster.into()).or_default();
            jobs.insert(source.job.into(), Job::new(source.cluster, source.job, &token));
        }
        let job = self.clusters.get_mut(source.cluster)?.get_mut(source.job)?;
        if !is_job {
            self.jobs.take(job);
        }
        if !is_rank {
            self.ranks.take(job);
        }
        job.nranks = source.nranks.unwrap_or(job.nranks);
        Some(job)
    }

    /// Lets go of the job that was silent for longest: one of the same cluster, else of any.
    fn make_room(&mut self, cluster: &str, now_ns: u64) {
        if now_ns.abs_diff(self.made_room_ns) < LOOKS_NS && self.made_room_ns > 0 {
            return;
        }
        self.made_room_ns = now_ns;
        let all = || self.clusters.values().flat_map(BTreeMap::values);
        let is_silent = |job: &&Job| now_ns.saturating_sub(job.seen_ns) >= MAKES_ROOM_NS;
        let oldest = all().filter(is_silent).min_by_key(|job| (&*job.cluster != cluster, job.seen_ns));
        let Some(oldest) = oldest else { return };
        let (cluster, name) = (oldest.cluster.clone(), oldest.name.clone());
        if let Some(jobs) = self.clusters.get_mut(&*cluster) {
            jobs.remove(&name);
        }
        self.count();
    }

    fn count(&mut self) {
        let all = self.clusters.values().flat_map(BTreeMap::values);
        self.jobs.recount(all.clone().map(|job| (job, 1)));
        self.ranks.recount(all.map(|job| (job, job.members.len())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signal;

    const SECOND: u64 = 1_000_000_000;

    fn push(cohorts: &mut Cohorts, job: &str, rank: u32, value: f64, at: u64) -> bool {
        let source = Source { cluster: "c", job, node: "n", rank: Some(rank), nranks: Some(8) };
        cohorts.sample(&Sample { source, signal: Signal::Health, value, seen_ns: at })
    }

    #[test]
    fn what_may_still_come_is_waited_for() {
        let mut cohorts = Cohorts::default();
        let source = Source { cluster: "c", job: "j", node: "n", rank: Some(0), nranks: Some(2) };
        let waits = Record {
            comm: "0xa",
            seq: Some(1),
            op: "ALL_REDUCE",
            rank: 0,
            nranks: 2,
            count: 1,
            datatype: "f32",
            reduce_op: "sum",
            peer: None,
            start_ns: SECOND,
            duration_ns: None,
            pid: None,
        };
        assert!(cohorts.collective(&source, &waits, SECOND));
        let hangs = |cohorts: &Cohorts, at: u64| cohorts.autopsies("c", None, at * SECOND).len();
        assert_eq!((hangs(&cohorts, 6), hangs(&cohorts, 7)), (0, 1));
        cohorts.turned_away("another", 5 * SECOND);
        assert_eq!(hangs(&cohorts, 7), 1, "another cluster's pushes say nothing of this one");
        cohorts.turned_away("c", 5 * SECOND);
        assert_eq!((hangs(&cohorts, 7), hangs(&cohorts, 30), hangs(&cohorts, 31)), (0, 0, 1));
        // Long after the last one that was turned away, all is as before.
        assert_eq!(cohorts.hang_after_ns("c", 36 * SECOND), 6 * SECOND);
    }

    #[test]
    fn the_threshold_says_who_was_heard_and_whether_they_suffice() {
        let mut cohorts = Cohorts::default();
        assert_eq!(cohorts.threshold("c", None), None);
        for rank in 0..3 {
            assert!(push(&mut cohorts, "j", rank, 0.9, SECOND));
        }
        cohorts.judge(2 * SECOND);
        let few = cohorts.threshold("c", Some("j")).unwrap();
        assert_eq!((few.quorum_met, few.ranks, few.nranks, few.coverage), (false, 3, 8, 0.375));
        push(&mut cohorts, "j", 3, 0.9, 2 * SECOND);
        cohorts.judge(3 * SECOND);
        let enough = cohorts.threshold("c", None).unwrap();
        assert!(enough.quorum_met);
        assert_eq!(enough.cohort, "c/j");
        assert!((enough.value.unwrap() - 0.84).abs() < 1e-6, "{enough:?}");
        // Whoever falls silent does not count any more.
        cohorts.judge(60 * SECOND);
        assert_eq!(cohorts.threshold("c", None).unwrap().ranks, 0);
    }

    #[test]
    fn jobs_and_ranks_are_bounded_and_what_is_silent_gives_way() {
        let mut cohorts = Cohorts::new(Limits { jobs: 2, ranks: 3, ..Limits::default() });
        assert!(push(&mut cohorts, "a", 0, 1.0, 0));
        assert!(push(&mut cohorts, "b", 0, 1.0, 30 * SECOND));
        assert!(push(&mut cohorts, "b", 1, 1.0, 30 * SECOND));
        assert!(!push(&mut cohorts, "b", 2, 1.0, 30 * SECOND), "a fourth rank");
        assert!(!push(&mut cohorts, "c", 0, 1.0, 31 * SECOND), "a third job");
        assert_eq!(cohorts.refused(), 2);
        assert!(push(&mut cohorts, "c", 0, 1.0, 70 * SECOND));
        assert_eq!(cohorts.jobs().map(|(_, job)| job).collect::<Vec<_>>(), ["b", "c"]);
        cohorts.judge(2000 * SECOND);
        assert_eq!(cohorts.jobs().count(), 0);
    }

    #[test]
    fn a_tenant_that_makes_up_jobs_and_ranks_leaves_room_for_another() {
        let sharing = Sharing { tokens: true, clusters: true };
        let mut cohorts = Cohorts::new(Limits { sharing, ..Limits::default() });
        cohorts.set_token(&"one".into());
        for number in 0..100_000u32 {
            let (job, cluster) = (format!("job-{number}"), format!("c-{}", number % 100));
            push(&mut cohorts, &job, 0, 1.0, SECOND);
            push(&mut cohorts, "large", number, 1.0, SECOND);
            let source = Source { cluster: &cluster, job: &job, node: "n", rank: Some(0), nranks: None };
            cohorts.sample(&Sample { source, signal: Signal::Health, value: 1.0, seen_ns: SECOND });
        }
        cohorts.set_token(&"other".into());
        for rank in 0..1_000 {
            let source = Source { cluster: "b", job: "new", node: "n", rank: Some(rank), nranks: None };
            let sample = Sample { source, signal: Signal::Health, value: 1.0, seen_ns: SECOND };
            assert!(cohorts.sample(&sample), "rank {rank}");
        }
        cohorts.judge_cluster("b", 2 * SECOND);
        assert_eq!(cohorts.threshold("b", Some("new")).unwrap().ranks, 1_000);
    }

    #[test]
    fn ranks_that_are_heard_of_no_more_are_forgotten_while_their_job_goes_on() {
        let mut cohorts = Cohorts::new(Limits { ranks: 10, ..Limits::default() });
        for rank in 0..10 {
            assert!(push(&mut cohorts, "j", rank, 1.0, SECOND));
        }
        assert!(push(&mut cohorts, "j", 0, 1.0, 700 * SECOND));
        assert!(!push(&mut cohorts, "j", 10, 1.0, 700 * SECOND));
        cohorts.judge(700 * SECOND);
        assert!(push(&mut cohorts, "j", 10, 1.0, 700 * SECOND));
        assert_eq!(cohorts.ranks.by_token.used(), 2);
    }

    #[test]
    fn what_is_no_number_is_not_taken() {
        let mut cohorts = Cohorts::default();
        assert!(!push(&mut cohorts, "j", 0, f64::NAN, 0));
        assert!(!push(&mut cohorts, "j", 0, f64::INFINITY, 0));
        assert_eq!(cohorts.jobs().count(), 0);
    }

    #[test]
    fn members_without_a_rank_are_compared_by_node() {
        let mut cohorts = Cohorts::default();
        for at in 1..20u64 {
            for node in ["a", "b", "c", "d"] {
                let source = Source { cluster: "c", job: "j", node, rank: None, nranks: None };
                let value = if node == "c" { 0.4 } else { 0.9 };
                let sample = Sample { source, signal: Signal::Health, value, seen_ns: at * SECOND };
                assert!(cohorts.sample(&sample));
            }
            cohorts.judge(at * SECOND + 1);
        }
        let message = cohorts.standing("c", None);
        assert_eq!(message.iter().map(|verdict| verdict.node.as_deref()).collect::<Vec<_>>(), [Some("c")]);
        assert!(
            message[0].message.starts_with("c is an outlier among 4 ranks: gpuwhy.rank.health is 0.400"),
            "{}",
            message[0].message
        );
    }
}
