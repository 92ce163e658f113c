//! `copies`: who copied how much, in which direction, and what that took of the host's time.

use crate::chosen::{Chosen, Subject, process_of};
use crate::estimates::{Factors, scaled};
use crate::since::span;
use crate::{QueryError, Rows};
use gpuwhy_model::CallClass;
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CopiesRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject { what: "copies", hint: "trace while a process copies to or from the GPU" };

/// By process, cgroup and direction; most bytes first. The rate is bytes by the host's time in the calls: of copies
/// that the host waits for it is the bus, of others it only says that the host did not wait. Where copies were watched in slices of
/// time, numbers are estimates with an interval, and null where too little was watched.
pub fn copies(reader: &Reader, request: &CopiesRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (clause, values) = chosen.clause("window_start_ns");
    let within = span(reader, request.since.as_deref(), None, None)?;
    let factors = Factors::read(reader, within, CallClass::Copies, "pid")?;
    let of = |column: &str| scaled(factors.as_ref(), &format!("sum({column})"));
    let (count, bytes, host_ns) = (of("count"), of("bytes"), of("sum_ns"));
    let interval = Factors::interval_columns(factors.as_ref(), "sum(count)", "count");
    let sql = format!(
        "SELECT pid, {}, cgroup_id, (SELECT p.cgroup FROM processes p WHERE p.pid = copy_stats.pid \
         AND p.cgroup_id = copy_stats.cgroup_id LIMIT 1) AS cgroup, direction, {count} AS count, {bytes} AS bytes, \
         {host_ns} / 1e6 AS host_ms, 1.0 * sum(bytes) / nullif(sum(sum_ns), 0) AS gb_per_s, sum(errors) AS errors{interval} \
         FROM copy_stats{clause} GROUP BY pid, cgroup_id, direction \
         ORDER BY sum(bytes) DESC, pid, cgroup_id, direction",
        process_of("copy_stats")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
