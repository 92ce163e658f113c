//! All jobs of all clusters: where samples and records come in, and verdicts go out.

use super::job::{Job, Who};
use super::{Limits, Place, Sample, Threshold, Verdict, judge};
use crate::Source;
use crate::collectives::{Autopsy, Clock, CommunicatorReport, Record, Stuck};
use std::collections::BTreeMap;

/// Another job takes the place of one that was silent for so long, where there are too many.
const MAKES_ROOM_NS: u64 = 60_000_000_000;

/// Bounded: see [`Limits`]. Pushing takes constant time, whatever the number of ranks; judging is linear in them.
#[derive(Debug, Clone, Default)]
pub struct Cohorts {
    limits: Limits,
    /// By cluster, then job.
    clusters: BTreeMap<String, BTreeMap<String, Job>>,
    jobs: usize,
    ranks: usize,
    refused: u64,
    /// When pushes were last turned away.
    turned_away_ns: Option<u64>,
}

impl Cohorts {
    pub fn new(limits: Limits) -> Cohorts {
        Cohorts { limits, ..Cohorts::default() }
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
        let (limits, mut verdicts) = (self.limits, Vec::new());
        for jobs in self.clusters.values_mut() {
            jobs.retain(|_, job| now_ns.saturating_sub(job.seen_ns) <= limits.forget_ns);
            for job in jobs.values_mut() {
                judge::judge(job, now_ns, &limits);
                verdicts.extend(job.standing.iter().cloned());
            }
        }
        self.clusters.retain(|_, jobs| !jobs.is_empty());
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

    /// Pushes were told to come again: for a while the end of a collective may be on its way.
    pub fn turned_away(&mut self, now_ns: u64) {
        self.turned_away_ns = Some(now_ns);
    }

    /// What a collective without an end is a hang after.
    pub fn hang_after_ns(&self, now_ns: u64) -> u64 {
        let since = self.turned_away_ns.map(|then| now_ns.saturating_sub(then));
        match since.is_some_and(|since| since < self.limits.hang_when_late_ns) {
            true => self.limits.hang_when_late_ns,
            false => self.limits.hang_ns,
        }
    }

    /// Hangs of all jobs of a cluster, or of one.
    pub fn autopsies(&self, cluster: &str, job: Option<&str>, now_ns: u64) -> Vec<Autopsy> {
        let after_ns = self.hang_after_ns(now_ns);
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
        if !is_job && self.jobs >= self.limits.jobs {
            self.make_room(seen_ns);
        }
        if (!is_job && self.jobs >= self.limits.jobs) || (!is_rank && self.ranks >= self.limits.ranks) {
            self.refused += 1;
            return None;
        }
        self.jobs += usize::from(!is_job);
        self.ranks += usize::from(!is_rank);
        if !is_job {
            let jobs = self.clusters.entry(source.cluster.into()).or_default();
            jobs.insert(source.job.into(), Job::new(source.cluster, source.job));
        }
        let job = self.clusters.get_mut(source.cluster)?.get_mut(source.job)?;
        job.nranks = source.nranks.unwrap_or(job.nranks);
        Some(job)
    }

    /// Lets go of the job that was silent for longest.
    fn make_room(&mut self, now_ns: u64) {
        let all = self.clusters.values().flat_map(BTreeMap::values);
        let Some(oldest) = all.min_by_key(|job| job.seen_ns) else { return };
        if now_ns.saturating_sub(oldest.seen_ns) < MAKES_ROOM_NS {
            return;
        }
        let (cluster, name) = (oldest.cluster.clone(), oldest.name.clone());
        if let Some(jobs) = self.clusters.get_mut(&cluster) {
            jobs.remove(&name);
        }
        self.count();
    }

    fn count(&mut self) {
        let all = || self.clusters.values().flat_map(BTreeMap::values);
        (self.jobs, self.ranks) = (all().count(), all().map(|job| job.members.len()).sum());
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
        cohorts.turned_away(5 * SECOND);
        assert_eq!((hangs(&cohorts, 7), hangs(&cohorts, 30), hangs(&cohorts, 31)), (0, 0, 1));
        // Long after the last one that was turned away, all is as before.
        assert_eq!(cohorts.hang_after_ns(36 * SECOND), 6 * SECOND);
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
        let said = cohorts.standing("c", None);
        assert_eq!(said.iter().map(|verdict| verdict.node.as_deref()).collect::<Vec<_>>(), [Some("c")]);
        assert!(
            said[0].said.starts_with("c is an outlier among 4 ranks: gpuwhy.rank.health is 0.400"),
            "{}",
            said[0].said
        );
    }
}
