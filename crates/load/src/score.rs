//! What the fleet said, beside what was planted.

use crate::jobs::{Job, is_slow, stops};
use serde_json::Value;
use std::collections::BTreeMap;

/// What was said of ranks, by (job, rank): when first, in nanoseconds of the fleet's clock.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub stragglers: BTreeMap<(String, u32), u64>,
    pub hangs: BTreeMap<(String, u32), u64>,
}

impl Said {
    /// The answer of `find_outlier_nodes`.
    pub(crate) fn verdicts(&mut self, answer: &Value) {
        for verdict in answer["verdicts"].as_array().into_iter().flatten() {
            if verdict["kind"] == "straggler" {
                note(&mut self.stragglers, &verdict["job"], &verdict["rank"], &verdict["since_ns"]);
            }
        }
    }

    /// The answer of `hang_autopsy`, as of now.
    pub(crate) fn autopsies(&mut self, answer: &Value, now_ns: u64) {
        for hang in answer["hangs"].as_array().into_iter().flatten() {
            for culprit in hang["culprits"].as_array().into_iter().flatten() {
                note(&mut self.hangs, &hang["job"], &culprit["rank"], &now_ns.into());
            }
        }
    }
}

fn note(message: &mut BTreeMap<(String, u32), u64>, job: &Value, rank: &Value, at: &Value) {
    if let (Some(job), Some(rank), Some(at)) = (job.as_str(), rank.as_u64(), at.as_u64()) {
        let first = message.entry((job.into(), rank as u32)).or_insert(at);
        *first = at.min(*first);
    }
}

/// How well one sort of fault was found.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Score {
    pub planted: usize,
    pub found: usize,
    /// Ranks that were named without reason.
    pub wrong: usize,
    /// Nothing where nothing was named, or planted.
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    /// From when the fault began to when it was named.
    pub median_seconds: Option<f64>,
    pub p90_seconds: Option<f64>,
    /// At most ten of each, as `JOB rank N`.
    pub missed: Vec<String>,
    pub accused: Vec<String>,
}

pub(crate) fn stragglers(jobs: &[Job], message: &Said) -> Score {
    // After a job has stopped nobody is slow; what is said then is told by the other score.
    score(jobs.iter().map(|job| (job, job.planted(is_slow).collect())), &message.stragglers)
}

pub(crate) fn hangs(jobs: &[Job], message: &Said) -> Score {
    score(jobs.iter().map(|job| (job, job.planted(stops).collect())), &message.hangs)
}

fn score<'a>(
    jobs: impl Iterator<Item = (&'a Job, Vec<(u32, f64)>)>,
    message: &BTreeMap<(String, u32), u64>,
) -> Score {
    const LISTED: usize = 10;
    let mut score = Score::default();
    let mut delays = Vec::new();
    let mut right = Vec::new();
    for (job, planted) in jobs {
        score.planted += planted.len();
        for (rank, from) in planted {
            let key = (job.name.clone(), rank);
            let onset = job.plan.fleet_ns(from);
            match message.get(&key).filter(|at| **at >= onset) {
                Some(at) => delays.push((at - onset) as f64 / 1e9),
                None => score.missed.push(format!("{} rank {rank}", job.name)),
            }
            if message.get(&key).is_some_and(|at| *at >= onset) {
                right.push(key);
            }
        }
    }
    let wrong: Vec<String> = message
        .keys()
        .filter(|key| !right.contains(key))
        .map(|(job, rank)| format!("{job} rank {rank}"))
        .collect();
    delays.sort_by(f64::total_cmp);
    (score.found, score.wrong) = (delays.len(), wrong.len());
    let named = score.found + score.wrong;
    score.precision = (named > 0).then(|| score.found as f64 / named as f64);
    score.recall = (score.planted > 0).then(|| score.found as f64 / score.planted as f64);
    score.median_seconds = delays.get(delays.len() / 2).copied();
    score.p90_seconds = delays.get(delays.len() * 9 / 10).copied();
    score.accused = wrong.into_iter().take(LISTED).collect();
    score.missed.truncate(LISTED);
    score
}

/// The largest error of the clocks that were told, in nanoseconds, and of how many.
pub(crate) fn clocks(job: &Job, seconds: f64, answer: &Value) -> (u64, usize) {
    let (mut worst, mut reported) = (0, 0);
    let ahead = |name: &str| {
        let node = name.trim_start_matches("node").parse().ok()?;
        Some(job.agents.truly_ahead_ns(node, seconds))
    };
    let all = answer["jobs"].as_array().into_iter().flatten();
    for clock in all.flat_map(|job| job["clocks"].as_array().into_iter().flatten()) {
        let (Some(node), Some(reference)) = (clock["node"].as_str(), clock["reference"].as_str()) else {
            continue;
        };
        let (Some(of), Some(from), Some(message)) =
            (ahead(node), ahead(reference), clock["ahead_ns"].as_i64())
        else {
            continue;
        };
        if node != reference {
            worst = worst.max((of - from).abs_diff(message));
            reported += 1;
        }
    }
    (worst, reported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Load;
    use serde_json::json;

    #[test]
    fn what_was_said_before_the_fault_or_of_others_is_wrong() {
        let load = Load { agents: 80, stragglers: 1.0, hangs: 0.0, ..Load::default() };
        let jobs = crate::jobs::jobs(&load, 1_000_000_000_000);
        let planted: Vec<(u32, f64)> = jobs.iter().flat_map(|job| job.planted(is_slow)).collect();
        assert_eq!(planted.len(), 10);
        let mut message = Said::default();
        let verdict = |job: usize, rank: u32, at: f64| {
            let since = jobs[job].plan.fleet_ns(at);
            json!({"kind": "straggler", "job": jobs[job].name, "rank": rank, "since_ns": since})
        };
        let right = verdict(0, planted[0].0, planted[0].1 + 3.0);
        let early = verdict(1, planted[1].0, planted[1].1 - 3.0);
        let other = verdict(2, (planted[2].0 + 1) % 8, planted[2].1 + 3.0);
        message.verdicts(&json!({"verdicts": [right, early, other, {"kind": "regression"}]}));
        let score = stragglers(&jobs, &message);
        assert_eq!((score.planted, score.found, score.wrong), (10, 1, 2));
        assert_eq!(score.recall, Some(0.1));
        assert!((score.median_seconds.unwrap() - 3.0).abs() < 1e-6);
    }
}
