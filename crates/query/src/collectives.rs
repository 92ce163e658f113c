//! `collectives`: by communicator, what it did, how much, and how long the host waited for it.

use crate::chosen::{Chosen, Subject};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CollectivesRequest {
    /// As `ncclAllReduce` or `ALL_REDUCE`.
    pub op: Option<String>,
    /// As `comm_id_hash`.
    pub communicator: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// A row for each rank.
    pub per_rank: bool,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject { what: "collectives", hint: "trace while a process uses NCCL" };

/// A communicator whose id is not known is told by its process and handle. Most time first.
pub fn collectives(reader: &Reader, request: &CollectivesRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let (mut clause, mut values) = chosen.conditions("timestamp_ns");
    if let Some(op) = &request.op {
        values.push(op.clone().into());
        clause += &format!(" AND ?{0} IN (op, function)", values.len());
    }
    if let Some(communicator) = &request.communicator {
        values.push(communicator.clone().into());
        clause += &format!(" AND comm_id_hash = ?{}", values.len());
    }
    let key = match request.per_rank {
        true => "comm_id_hash, comm, pid, rank",
        false => {
            "comm_id_hash, iif(comm_id_hash IS NULL, comm, NULL) AS comm, \
             iif(comm_id_hash IS NULL AND comm IS NOT NULL, pid, NULL) AS pid"
        }
    };
    // An answer of 7 is `ncclInProgress`, which is none.
    let sql = format!(
        "SELECT {key}, op, max(nranks) AS nranks, count(DISTINCT rank) AS ranks_seen, count(*) AS calls, \
         sum(bytes) AS bytes, max(seq) AS last_seq, sum(ret NOT IN (0, 7)) AS errors, \
         avg(duration_ns) / 1e3 AS mean_us, max(duration_ns) / 1e3 AS max_us, avg(wait_ns) / 1e3 AS mean_wait_us, \
         max(wait_ns) / 1e3 AS max_wait_us FROM nccl_events{clause} GROUP BY {groups}, op \
         ORDER BY sum(duration_ns) + ifnull(sum(wait_ns), 0) DESC, {groups}, op",
        groups = if request.per_rank { "1, 2, 3, 4" } else { "1, 2, 3" },
    );
    chosen.rows(SUBJECT, &sql, &values)
}
