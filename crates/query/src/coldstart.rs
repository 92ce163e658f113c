//! `coldstart`: what happened once and made first calls slow.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ColdstartRequest {
    /// `context`, `module_load`, `jit`, `lazy_load` or `first_launch`.
    pub event: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject { what: "cold starts", hint: "begin to trace before the process starts" };

/// The longest first.
pub fn coldstart(reader: &Reader, request: &ColdstartRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (mut clause, mut values) = chosen.conditions("timestamp_ns");
    if let Some(event) = &request.event {
        values.push(event.clone().into());
        clause += &format!(" AND event = ?{}", values.len());
    }
    let sql = format!(
        "SELECT timestamp_ns, duration_ns / 1e6 AS ms, event, op, pid, {}, tid, name, bytes, ret, stack_id \
         FROM coldstart_events{clause} ORDER BY duration_ns DESC, timestamp_ns",
        process_of("coldstart_events")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
