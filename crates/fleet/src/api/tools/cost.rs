//! `fleet.cluster.get_cost`: stalls from what ranks report, waiting for stragglers from the collectives, priced.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::Which;
use super::Coverage;
use super::collectives::joined;
use crate::store::{Filter, RankValue, Reach};
use gpuwhy_cohort::cost::{Counterfactual, Loss};
use gpuwhy_cohort::{Cohorts, Cost, cost};
use gpuwhy_http::AskError;
use gpuwhy_model::Cause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const IDLE: &str = "gpuwhy.rank.idle_ratio";
const NANOSECONDS: f64 = 1e9;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CostRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// Of this job.
    job_id: Option<String>,
    /// The last so long, as 1h (that is usual), counted back from the newest row.
    since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    from_ns: Option<i64>,
    /// Until before this time, unix time in nanoseconds.
    to_ns: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CostAnswer {
    #[serde(flatten)]
    cost: Cost,
    coverage: Coverage,
}

pub(super) fn get_cost(work: &Work<'_>, request: &CostRequest) -> Result<CostAnswer, AskError> {
    let which = Which {
        cluster_id: request.cluster_id.clone(),
        job_id: request.job_id.clone(),
        since: request.since.clone(),
        from_ns: request.from_ns,
        to_ns: request.to_ns,
        ..Which::default()
    };
    let filter = which.filter(work.grant, work.store, Some("1h"), work.stop)?;
    let mut coverage = Coverage { from_ns: filter.from_ns, to_ns: filter.to_ns, ..Coverage::default() };
    let gpus = gpus(work, &filter)?;
    let mut losses = stalls(work, &filter, &gpus)?;
    let (cohorts, _) = joined(work, &filter)?;
    let (waited, counterfactuals) = stragglers(work, &cohorts, &gpus);
    losses.extend(waited);
    coverage.notes.push("a rank counts as one GPU; stalls are the time without queued GPU work".into());
    if work.rates.is_empty() {
        coverage.notes.push("no rates were given with --rates, so there are no dollars".into());
    }
    Ok(CostAnswer { cost: cost(work.rates, &losses, counterfactuals), coverage })
}

/// Of a job of a cluster.
type Rank = (String, Option<String>, Option<i32>);

/// What each node says its GPUs are.
fn gpus(work: &Work<'_>, filter: &Filter) -> Result<HashMap<(String, String), String>, AskError> {
    let of = Filter { clusters: filter.clusters.clone(), ..Filter::default() };
    let reach = Reach { rows: 100_000, ..Reach::default() };
    let rows = work.store.nodes(&of, reach, work.stop).map_err(|error| of_store(&error))?.objects();
    let gpus = rows.iter().filter_map(|row| {
        let resource: serde_json::Value = serde_json::from_str(row.get("resource")?.as_str()?).ok()?;
        let gpu = resource.get("gpu").or_else(|| resource.get("gpu.name"))?.as_str()?.to_string();
        Some(((row.get("cluster_id")?.as_str()?.into(), row.get("node_id")?.as_str()?.into()), gpu))
    });
    Ok(gpus.collect())
}

/// Time in which no GPU work was queued, split by what the ranks lost their time to meanwhile.
fn stalls(
    work: &Work<'_>,
    filter: &Filter,
    gpus: &HashMap<(String, String), String>,
) -> Result<Vec<Loss>, AskError> {
    let of = |metric: &str| Filter { metric: Some(metric.into()), ..filter.clone() };
    let idle = work.store.by_rank(&of(IDLE), work.stop).map_err(|error| of_store(&error))?;
    let mut shares: HashMap<Rank, Vec<(Cause, f64)>> = HashMap::new();
    for blame in work.store.blame(filter, work.stop).map_err(|error| of_store(&error))? {
        let cause = Cause::ALL.iter().find(|cause| cause.name() == blame.class);
        // Waiting for the GPU is no time without work for it.
        if let Some(cause) = cause.filter(|cause| **cause != Cause::GpuWait && blame.share > 0.0) {
            let of = shares.entry((blame.cluster, blame.job, blame.rank)).or_default();
            of.push((*cause, blame.share));
        }
    }
    let mut losses = Vec::new();
    for rank in idle {
        let lost = rank.mean.clamp(0.0, 1.0) * observed_seconds(&rank);
        let causes = shares.remove(&(rank.cluster.clone(), rank.job.clone(), rank.rank)).unwrap_or_default();
        let sum: f64 = causes.iter().map(|(_, share)| share).sum();
        let causes = if sum > 0.0 { causes } else { vec![(Cause::Unknown, 1.0)] };
        let sum = if sum > 0.0 { sum } else { 1.0 };
        let gpu = gpus.get(&(rank.cluster.clone(), rank.node.clone())).cloned();
        losses.extend(causes.into_iter().map(|(cause, share)| Loss {
            cluster: rank.cluster.clone(),
            job: rank.job.clone().unwrap_or_else(|| "default".into()),
            rank: rank.rank.and_then(|rank| u32::try_from(rank).ok()),
            cause,
            gpu: gpu.clone(),
            gpu_seconds: lost * share / sum,
        }));
    }
    Ok(losses)
}

/// A point stands for the time since the one before it.
fn observed_seconds(rank: &RankValue) -> f64 {
    let span = (rank.last_ns - rank.first_ns) as f64 / NANOSECONDS;
    match rank.points {
        0 | 1 => span,
        points => span * points as f64 / (points - 1) as f64,
    }
}

/// What all ranks waited for the one that came last.
fn stragglers(
    work: &Work<'_>,
    cohorts: &Cohorts,
    gpus: &HashMap<(String, String), String>,
) -> (Vec<Loss>, Vec<Counterfactual>) {
    let (mut losses, mut counterfactuals) = (Vec::new(), Vec::new());
    for (cluster, job) in cohorts.jobs() {
        for report in cohorts.communicators(cluster, job) {
            for rank in &report.ranks {
                let gpu = gpus.get(&(cluster.to_string(), rank.node.clone()));
                let rate = work.rates.of(cluster, gpu.map(String::as_str));
                losses.push(Loss {
                    cluster: cluster.into(),
                    job: job.into(),
                    rank: Some(rank.rank),
                    cause: Cause::RankStraggler,
                    gpu: gpu.cloned(),
                    gpu_seconds: rank.kept_waiting_ns as f64 / NANOSECONDS,
                });
                let saved = Counterfactual::of(rank.rank, report.nranks, &rank.saved_shares, rate);
                counterfactuals.extend(saved.map(|saved| Counterfactual {
                    cluster: Some(cluster.into()),
                    job: Some(job.into()),
                    ..saved
                }));
            }
        }
    }
    counterfactuals.sort_by(|a, b| b.gpu_hours_a_month.total_cmp(&a.gpu_hours_a_month));
    counterfactuals.truncate(16);
    (losses, counterfactuals)
}
