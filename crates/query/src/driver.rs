//! `driver`: who is in the GPU driver, how often and for how long.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DriverRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject =
    Subject { what: "calls into the GPU driver", hint: "trace while a process uses the GPU" };

/// By process and device file, with its share of all the time that was selected. Most time first.
pub fn driver(reader: &Reader, request: &DriverRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (clause, values) = chosen.clause("window_start_ns");
    let sql = format!(
        "SELECT pid, {}, max(cgroup) AS cgroup, device, sum(count) AS count, sum(sum_ns) / 1e6 AS ms, \
         100.0 * sum(sum_ns) / nullif(sum(sum(sum_ns)) OVER (), 0) AS pct, sum(oncpu_ns) / 1e6 AS oncpu_ms, \
         sum(runq_ns) / 1e6 AS runq_ms, sum(blocked_ns) / 1e6 AS blocked_ms, \
         sum(sum_ns) / 1e3 / nullif(sum(count), 0) AS mean_us, max(max_ns) / 1e3 AS max_us, sum(errors) AS errors \
         FROM driver_stats{clause} GROUP BY pid, device ORDER BY sum(sum_ns) DESC, pid, device",
        process_of("driver_stats")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
