//! `fleet.cluster.find_outlier_nodes`.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::Which;
use super::Coverage;
use super::history::MAX_ROWS;
use crate::store::{Filter, RankValue};
use gpuwhy_cohort::cohort::{Outliers, outliers};
use gpuwhy_cohort::{Signal, Verdict};
use gpuwhy_http::AskError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const HEALTH: &str = "gpuwhy.rank.health";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutliersRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// Of this job.
    job_id: Option<String>,
    /// Compare by this metric; gpuwhy.rank.health otherwise.
    metric_name: Option<String>,
    /// Higher values are worse; known for gpuwhy.rank metrics, false otherwise.
    higher_is_worse: Option<bool>,
    /// The last so long, as 60s (that is usual), counted back from the newest row.
    since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    from_ns: Option<i64>,
    /// Until before this time, unix time in nanoseconds.
    to_ns: Option<i64>,
    /// So many deviations from the median are too many; 3 otherwise.
    k: Option<f64>,
    /// So many members of each cohort with their values, the worst first; none otherwise.
    members: Option<usize>,
}

/// A rank, or a node without one, and its median over the time.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Member {
    rank: Option<i32>,
    node_id: String,
    value: f64,
    /// When it last told.
    last_ns: i64,
}

/// Ranks of one job in one cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cohort {
    cluster_id: String,
    job_id: Option<String>,
    /// How many ranks the job has, where they say.
    nranks: Option<i32>,
    #[serde(flatten)]
    compared: Outliers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<Member>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OutliersAnswer {
    /// Ranks that drag the others now, and cohorts that are slower than they were, as the last judgement has it.
    verdicts: Vec<Verdict>,
    /// By metric: the medians of each rank over the time, compared within its cohort. Members are `rank N on NODE`.
    cohorts: Vec<Cohort>,
    metric_name: String,
    coverage: Coverage,
}

pub(super) fn find(work: &Work<'_>, request: &OutliersRequest) -> Result<OutliersAnswer, AskError> {
    let which = Which {
        cluster_id: request.cluster_id.clone(),
        job_id: request.job_id.clone(),
        since: request.since.clone(),
        from_ns: request.from_ns,
        to_ns: request.to_ns,
        ..Which::default()
    };
    let filter = which.filter(work.grant, work.store, Some("60s"), work.stop)?;
    let metric = request.metric_name.as_deref().unwrap_or(HEALTH);
    let known = Signal::of_metric(metric, None).map(Signal::higher_is_worse);
    let higher_is_worse = request.higher_is_worse.or(known).unwrap_or(false);
    let k = request.k.filter(|k| k.is_finite() && *k > 0.0).unwrap_or(3.0);
    let verdicts = work.peers.verdicts(filter.clusters.as_deref(), request.job_id.as_deref());
    let coverage = Coverage { from_ns: filter.from_ns, to_ns: filter.to_ns, ..Coverage::default() };
    let filter = Filter { metric: Some(metric.into()), ..filter };
    let ranks = work.store.by_rank(&filter, work.stop).map_err(|error| of_store(&error))?;
    let cohorts = cohorts(&ranks, higher_is_worse, k, request.members.unwrap_or(0).min(MAX_ROWS));
    Ok(OutliersAnswer { verdicts, cohorts, metric_name: metric.into(), coverage })
}

/// `most` members of each are told with their values.
fn cohorts(ranks: &[RankValue], higher_is_worse: bool, k: f64, most: usize) -> Vec<Cohort> {
    let mut members: BTreeMap<(&str, Option<&str>), Vec<&RankValue>> = BTreeMap::new();
    for value in ranks {
        members.entry((&value.cluster, value.job.as_deref())).or_default().push(value);
    }
    let compared = members.into_iter().map(|((cluster, job), mut members)| {
        let named: Vec<(String, f64)> = members.iter().map(|value| (name(value), value.median)).collect();
        members.sort_by(|a, b| match higher_is_worse {
            true => b.median.total_cmp(&a.median),
            false => a.median.total_cmp(&b.median),
        });
        Cohort {
            cluster_id: cluster.into(),
            job_id: job.map(String::from),
            nranks: members.iter().filter_map(|value| value.nranks).max(),
            compared: outliers(&named, higher_is_worse, k),
            values: members.iter().take(most).map(|value| member(value)).collect(),
        }
    });
    compared.collect()
}

fn name(value: &RankValue) -> String {
    match value.rank {
        Some(rank) => format!("rank {rank} on {}", value.node),
        None => value.node.clone(),
    }
}

fn member(value: &RankValue) -> Member {
    Member { rank: value.rank, node_id: value.node.clone(), value: value.median, last_ns: value.last_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_compared_within_their_cohort() {
        let value = |job: &str, rank: i32, median: f64| RankValue {
            cluster: "a".into(),
            node: format!("n{rank}"),
            job: Some(job.into()),
            rank: Some(rank),
            nranks: None,
            median,
            mean: median,
            points: 1,
            first_ns: 0,
            last_ns: 0,
        };
        let mut ranks: Vec<RankValue> = (0..8).map(|rank| value("fast", rank, 1.0)).collect();
        ranks.extend((0..8).map(|rank| value("slow", rank, if rank == 5 { 4.0 } else { 2.0 })));
        let found = cohorts(&ranks, true, 3.0, 2);
        assert!(found[0].compared.outliers.is_empty(), "{found:?}");
        let named: Vec<&str> =
            found[1].compared.outliers.iter().map(|outlier| outlier.member.as_str()).collect();
        assert_eq!(named, ["rank 5 on n5"]);
        let worst: Vec<Option<i32>> = found[1].values.iter().map(|member| member.rank).collect();
        assert_eq!((worst.len(), worst[0]), (2, Some(5)), "the worst first, and no more than asked for");
    }
}
