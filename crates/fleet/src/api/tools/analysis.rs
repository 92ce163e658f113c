//! `fleet.cluster.run_analysis`, and SQL.

use super::super::Work;
use super::super::analyses::{ANALYSES, find};
use super::super::asking::of_store;
use super::super::request::clusters;
use super::history::MAX_ROWS;
use super::{Coverage, Table};
use crate::store::Reach;
use crate::tokens::Scope;
use gpuwhy_http::{AskError, Kind};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// The longest a statement may take.
const MAX_SECONDS: u64 = 30;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnalysisRequest {
    /// The name of a prepared analysis: metrics, slowest_ranks, causes, idle, silent_nodes, findings_by_class, slow_collectives.
    analysis: Option<String>,
    /// Instead of it, SQL that only reads, in DuckDB's dialect.
    sql: Option<String>,
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// So many rows at most.
    limit: Option<usize>,
}

pub(super) fn run_analysis(work: &Work<'_>, request: &AnalysisRequest) -> Result<Table, AskError> {
    let analysis = match (&request.analysis, &request.sql) {
        (None, Some(statement)) => {
            let asked = SqlRequest { sql: statement.clone(), limit: request.limit, seconds: None };
            return sql(work, &asked);
        }
        (Some(name), None) => find(name),
        _ => None,
    };
    let Some(analysis) = analysis else {
        let names: Vec<&str> = ANALYSES.iter().map(|analysis| analysis.name).collect();
        let sentence = format!("name one analysis, or give sql; there are {}", names.join(", "));
        return Err(AskError::new(Kind::Usage, sentence));
    };
    let clusters = clusters(work.grant, request.cluster_id.as_deref());
    let reach = Reach { rows: request.limit.unwrap_or(100).clamp(1, MAX_ROWS), ..Reach::default() };
    let rows = work
        .store
        .analysis(analysis.sql, clusters.as_deref(), reach, work.stop)
        .map_err(|error| of_store(&error))?;
    Ok(Table::new(rows, Coverage::default()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlRequest {
    /// One SELECT, in DuckDB's dialect.
    sql: String,
    /// So many rows at most.
    limit: Option<usize>,
    /// Given up after so many seconds.
    seconds: Option<u64>,
}

/// The engine holds a statement to reading, but cannot hold it to some rows of a table: so it is for those who may see all.
pub(super) fn sql(work: &Work<'_>, request: &SqlRequest) -> Result<Table, AskError> {
    if !work.grant.has(Scope::Sql) || work.grant.clusters.is_some() {
        let sentence = "SQL sees all clusters, so it needs a token with the scope `sql` for `*`; run_analysis has prepared questions";
        return Err(AskError::new(Kind::Refused, sentence));
    }
    let time = Duration::from_secs(request.seconds.unwrap_or(MAX_SECONDS).clamp(1, MAX_SECONDS));
    let rows = request.limit.unwrap_or(1_000).clamp(1, MAX_ROWS);
    let reach = Reach { rows, time, ..Reach::default() };
    let rows = work.store.sql(&request.sql, reach, work.stop).map_err(|error| of_store(&error))?;
    Ok(Table::new(rows, Coverage::default()))
}
