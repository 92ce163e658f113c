//! `memory`: who holds device memory, how much there was at most, and who got none.

use crate::chosen::{Chosen, Subject, process_of};
use crate::rows::{Row, objects};
use crate::{QueryError, Rows};
use gpuwhy_model::Coverage;
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event: holders of what was
    /// allocated then and is live, and failures.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// So many rows of each kind.
    pub limit: Option<usize>,
}

/// As JSON: lists of objects under these names.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// By process, GPU and kind, as it was last: live, at most, in all. Most first.
    #[serde(serialize_with = "objects")]
    #[schemars(with = "Vec<Row>")]
    pub usage: Rows,
    /// Live memory by call site. Most first.
    #[serde(serialize_with = "objects")]
    #[schemars(with = "Vec<Row>")]
    pub holders: Rows,
    /// Allocations that failed. Newest first.
    #[serde(serialize_with = "objects")]
    #[schemars(with = "Vec<Row>")]
    pub failures: Rows,
    /// There are more rows of some kind than were asked for.
    pub truncated: bool,
    pub coverage: Coverage,
}

const SUBJECT: Subject =
    Subject { what: "allocations", hint: "trace while a process allocates device memory" };

pub fn memory(reader: &Reader, request: &MemoryRequest) -> Result<Memory, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    // Rows are written when something changed: the last one tells how it is, however old.
    let (clause, values) = Chosen::new(reader, request.pid, None, None)?.clause("timestamp_ns");
    let usage = chosen.select(
        &format!(
            "SELECT s.pid, {}, s.gpu, s.kind, s.live_bytes, s.peak_bytes, s.live_count, s.allocated_bytes, s.freed_bytes, \
             s.failures, s.timestamp_ns FROM (SELECT *, max(timestamp_ns) FROM memory_stats{clause} \
             GROUP BY pid, gpu, kind) s ORDER BY s.live_bytes DESC, s.pid, s.gpu, s.kind",
            process_of("s")
        ),
        &values,
    )?;
    let (clause, values) = chosen.conditions("allocated_ns");
    let holders = chosen.select(
        &format!(
            "SELECT a.pid, {}, a.gpu, a.kind, a.pool, a.op, a.stack_id, sum(a.bytes) AS bytes, count(*) AS count, \
             min(a.allocated_ns) AS oldest_ns, max(a.allocated_ns) AS newest_ns FROM allocations a{clause} \
             AND a.freed_ns IS NULL GROUP BY a.pid, a.gpu, a.kind, a.pool, a.op, a.stack_id \
             ORDER BY sum(a.bytes) DESC, a.pid, a.stack_id",
            process_of("a")
        ),
        &values,
    )?;
    let (clause, values) = chosen.clause("timestamp_ns");
    let failures = chosen.select(
        &format!(
            "SELECT f.timestamp_ns, f.pid, {}, f.op, f.bytes, f.ret, f.gpu, f.live_bytes, f.holders, f.stack_id \
             FROM memory_failures f{clause} ORDER BY f.timestamp_ns DESC",
            process_of("f")
        ),
        &values,
    )?;
    if [&usage, &holders, &failures].iter().all(|part| part.rows.is_empty()) && request.limit != Some(0) {
        return Err(chosen.nothing(SUBJECT));
    }
    let coverage = reader.coverage(chosen.from_ns)?;
    let [usage, holders, failures] =
        [usage, holders, failures].map(|answer| Rows::new(answer, coverage.clone()));
    let truncated = usage.truncated || holders.truncated || failures.truncated;
    Ok(Memory { usage, holders, failures, truncated, coverage })
}
