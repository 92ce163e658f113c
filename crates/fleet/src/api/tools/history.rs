//! `fleet.cluster.event_history`.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::Which;
use super::{Coverage, Table};
use crate::store::{Filter, Reach};
use gpuwhy_http::AskError;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) const MAX_ROWS: usize = 10_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// Of this node.
    node_id: Option<String>,
    /// Of this job.
    job_id: Option<String>,
    /// Of this rank.
    rank: Option<i32>,
    /// Of this metric, log event or span.
    metric_name: Option<String>,
    /// The last so long, as 90s, 5m, 2h, 1d, counted back from the newest row.
    since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    from_ns: Option<i64>,
    /// Until before this time, unix time in nanoseconds.
    to_ns: Option<i64>,
    /// Findings of nodes and of the fleet instead of events.
    #[serde(default)]
    findings: bool,
    /// So many rows at most.
    limit: Option<usize>,
}

pub(super) fn event_history(work: &Work<'_>, request: &HistoryRequest) -> Result<Table, AskError> {
    let which = Which {
        cluster_id: request.cluster_id.clone(),
        node_id: request.node_id.clone(),
        job_id: request.job_id.clone(),
        rank: request.rank,
        since: request.since.clone(),
        from_ns: request.from_ns,
        to_ns: request.to_ns,
    };
    let filter = which.filter(work.grant, work.store, None, work.stop)?;
    let coverage = Coverage { from_ns: filter.from_ns, to_ns: filter.to_ns, ..Coverage::default() };
    let reach = Reach { rows: request.limit.unwrap_or(100).clamp(1, MAX_ROWS), ..Reach::default() };
    let rows = match request.findings {
        true => work.store.findings(&filter, reach, work.stop),
        false => {
            let filter = Filter { metric: request.metric_name.clone(), ..filter };
            work.store.events(&filter, reach, work.stop)
        }
    };
    Ok(Table::new(rows.map_err(|error| of_store(&error))?, coverage))
}
