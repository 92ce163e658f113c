//! `in_flight`: calls that did not return for long, or never.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InFlightRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event: calls that still lasted then.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject =
    Subject { what: "calls that lasted long enough to be seen in flight", hint: "every call returned soon" };

/// Those that have not returned first, the longest of them before the others.
pub fn in_flight(reader: &Reader, request: &InFlightRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let (clause, values) = chosen.clause("seen_ns");
    let sql = format!(
        "SELECT pid, {}, tid, op, (ifnull(ended_ns, seen_ns) - start_ns) / 1e6 AS lasted_ms, ended_ns IS NULL AS lasts, \
         start_ns, seen_ns, ended_ns, stream, handle, comm_id_hash, rank, nranks, seq, stack_id, \
         (SELECT file || ifnull(':' || line, '') || ' ' || function FROM frames WHERE frames.stack_id = calls_in_flight.stack_id \
         ORDER BY depth LIMIT 1) AS line FROM calls_in_flight{clause} \
         ORDER BY lasts DESC, lasted_ms DESC, pid, tid, start_ns",
        process_of("calls_in_flight")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
