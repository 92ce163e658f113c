//! `servers`: inference servers, as they described themselves.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServersRequest {
    /// Only of this process, which is the server itself.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

const SUBJECT: Subject =
    Subject { what: "samples of inference servers", hint: "trace with --servers where one runs" };

/// The newest samples first. `explain` has the latencies of the whole time, and what was lost when they were worst.
pub fn servers(reader: &Reader, request: &ServersRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (clause, values) = chosen.clause("timestamp_ns");
    let sql = format!(
        "SELECT *, {} FROM server_samples{clause} ORDER BY timestamp_ns DESC, url",
        process_of("server_samples")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
