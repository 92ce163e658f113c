//! `fleet.cluster.collectives`: what was stored, joined again.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::Which;
use super::Coverage;
use crate::peers::take_collective;
use crate::point::Collective;
use crate::store::Filter;
use gpuwhy_cohort::collectives::CommunicatorReport;
use gpuwhy_cohort::{Clock, Cohorts, Limits};
use gpuwhy_http::AskError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls that are joined for one answer: the newest.
const MAX_CALLS: usize = 300_000;
const JUDGED_EVERY: usize = 2048;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectivesRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// Of this job.
    job_id: Option<String>,
    /// Of this communicator, as 0x and hex digits.
    comm_id_hash: Option<String>,
    /// The last so long, as 60s (that is usual), counted back from the newest row.
    since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    from_ns: Option<i64>,
    /// Until before this time, unix time in nanoseconds.
    to_ns: Option<i64>,
}

/// One job of one cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobCollectives {
    cluster_id: String,
    job_id: String,
    communicators: Vec<CommunicatorReport>,
    /// By how much the nodes' clocks differ, from that nobody leaves a collective before all have come.
    clocks: Vec<Clock>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CollectivesAnswer {
    jobs: Vec<JobCollectives>,
    /// Calls that were joined.
    calls: usize,
    coverage: Coverage,
}

pub(super) fn collectives(
    work: &Work<'_>,
    request: &CollectivesRequest,
) -> Result<CollectivesAnswer, AskError> {
    let which = Which {
        cluster_id: request.cluster_id.clone(),
        job_id: request.job_id.clone(),
        since: request.since.clone(),
        from_ns: request.from_ns,
        to_ns: request.to_ns,
        ..Which::default()
    };
    let filter = which.filter(work.grant, work.store, Some("60s"), work.stop)?;
    let mut coverage = Coverage { from_ns: filter.from_ns, to_ns: filter.to_ns, ..Coverage::default() };
    let filter = Filter { comm_id_hash: request.comm_id_hash.clone(), ..filter };
    let (cohorts, calls) = joined(work, &filter)?;
    if calls == MAX_CALLS {
        coverage
            .notes
            .push(format!("only the newest {MAX_CALLS} calls were joined; ask about a shorter time"));
    }
    let jobs = cohorts
        .jobs()
        .map(|(cluster, job)| JobCollectives {
            cluster_id: cluster.into(),
            job_id: job.into(),
            communicators: cohorts.communicators(cluster, job),
            clocks: cohorts.clocks(cluster, job),
        })
        .collect();
    Ok(CollectivesAnswer { jobs, calls, coverage })
}

/// The stored calls of a filter, compared as if they came now.
pub(super) fn joined(work: &Work<'_>, filter: &Filter) -> Result<(Cohorts, usize), AskError> {
    let mut calls = work.store.collectives(filter, MAX_CALLS, work.stop).map_err(|error| of_store(&error))?;
    let mut cohorts = Cohorts::new(Limits::default());
    let end_ns =
        |call: &Collective| call.start_ns.saturating_add(call.duration_ns.unwrap_or(0)).max(0) as u64;
    let newest_ns = calls.iter().map(end_ns).max().unwrap_or(0);
    // Clocks of nodes differ by seconds: what belongs together is told by its number, not by its time.
    calls.sort_by(|a, b| (&a.comm_id_hash, a.seq).cmp(&(&b.comm_id_hash, b.seq)));
    for (index, call) in calls.iter().enumerate() {
        take_collective(&mut cohorts, call, newest_ns);
        // Clocks are found as they come.
        if index.is_multiple_of(JUDGED_EVERY) {
            cohorts.judge(newest_ns);
        }
    }
    cohorts.judge(newest_ns + 1);
    Ok((cohorts, calls.len()))
}
