//! `graphs`: what was captured, how long that took, and how often it was launched.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GraphsRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event: graphs that lived then.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject { what: "graphs", hint: "trace while a process captures or launches some" };

/// Most launches first.
pub fn graphs(reader: &Reader, request: &GraphsRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    // Those that live are as new as can be.
    let (clause, values) = chosen.clause("ifnull(destroyed_ns, 9223372036854775807)");
    let sql = format!(
        "SELECT pid, {}, graph, exec, nodes, kernels, updates, launches, launch_ns / 1e6 AS launch_ms, \
         launch_ns / 1e3 / nullif(launches, 0) AS mean_launch_us, capture_ns / 1e6 AS capture_ms, \
         instantiate_ns / 1e6 AS instantiate_ms, created_ns, destroyed_ns, stack_id FROM graphs{clause} \
         ORDER BY launches DESC, created_ns, pid, graph",
        process_of("graphs")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
