//! `watch_cost`: what being watched cost each process, and what was done about it.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WatchCostRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject =
    Subject { what: "calls that were trapped", hint: "trace a process that uses the GPU" };

/// By process; most first.
pub fn watch_cost(reader: &Reader, request: &WatchCostRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let (clause, values) = chosen.clause("window_start_ns");
    let sql = format!(
        "SELECT pid, {}, sum(calls) AS calls, sum(cost_ns) / 1e6 AS cost_ms, \
         sum(worst_thread_pct * window_ns) / nullif(max(window_start_ns + window_ns) - min(window_start_ns), 0) AS mean_pct, \
         max(worst_thread_pct) AS worst_pct, \
         (SELECT count(*) FROM watch_changes c WHERE c.state = 'degraded' AND c.reason LIKE '% of process ' || watch_costs.pid || ' cost %') \
         AS detached FROM watch_costs{clause} GROUP BY pid ORDER BY sum(cost_ns) DESC",
        process_of("watch_costs")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
