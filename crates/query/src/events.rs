//! `events`: events by operation, process and time.

use crate::since::{from_ns, nothing, selection};
use crate::{QueryError, Rows};
use gpuwhy_store::{Filter, Limits, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventsRequest {
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

/// In order of time; where there are too many, the newest.
pub fn events(reader: &Reader, request: &EventsRequest) -> Result<Rows, QueryError> {
    let from = from_ns(reader, request.since.as_deref())?;
    let filter = Filter { op: request.op.clone(), pid: request.pid, from_ns: from, to_ns: None };
    let mut limits = Limits::default();
    limits.rows = request.limit.unwrap_or(limits.rows);
    let answer = reader.events(&filter, &limits)?;
    if answer.rows.is_empty() && limits.rows > 0 {
        let selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(nothing(reader, "events", &selection)?);
    }
    Ok(Rows::new(answer, reader.coverage(from)?))
}
