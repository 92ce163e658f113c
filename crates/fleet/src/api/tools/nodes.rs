//! `fleet.cluster.nodes`.

use super::super::Work;
use super::super::asking::of_store;
use super::super::request::clusters;
use super::history::MAX_ROWS;
use super::{Coverage, Table};
use crate::store::{Filter, Reach};
use gpuwhy_http::AskError;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodesRequest {
    /// Of this cluster; all that the token may see otherwise.
    cluster_id: Option<String>,
    /// This node.
    node_id: Option<String>,
    /// So many rows at most.
    limit: Option<usize>,
}

pub(super) fn nodes(work: &Work<'_>, request: &NodesRequest) -> Result<Table, AskError> {
    let filter = Filter {
        clusters: clusters(work.grant, request.cluster_id.as_deref()),
        node: request.node_id.clone(),
        ..Filter::default()
    };
    let reach = Reach { rows: request.limit.unwrap_or(1_000).clamp(1, MAX_ROWS), ..Reach::default() };
    let rows = work.store.nodes(&filter, reach, work.stop).map_err(|error| of_store(&error))?;
    let notes = vec!["last_seen_ns of a node that still speaks may be some seconds behind".into()];
    Ok(Table::new(rows, Coverage { notes, ..Coverage::default() }))
}
