//! `noise`: who kept the traced processes from the CPU.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoiseRequest {
    /// The process that waited.
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
    Subject { what: "waits for a CPU that somebody else had", hint: "nobody disturbed the traced processes" };

/// By neighbour, with whose it is; most time first.
pub fn noise(reader: &Reader, request: &NoiseRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let (clause, values) = chosen.clause("window_start_ns");
    let sql = format!(
        "SELECT by_pid, max(by_comm) AS by_comm, tenant, cgroup, pid, {}, sum(ns) / 1e6 AS ms, sum(count) AS waits, \
         count(DISTINCT window_start_ns) AS windows, min(window_start_ns) AS first_ns, max(window_start_ns) AS last_ns \
         FROM noise{clause} GROUP BY by_pid, tenant, cgroup, pid ORDER BY sum(ns) DESC",
        process_of("noise")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
