//! `annotations`: steps, epochs and requests that were marked.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnnotationsRequest {
    /// What is marked, as `step`.
    pub event: Option<String>,
    /// Only this one, as `140` of `step`.
    pub value: Option<String>,
    /// Only of this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject {
    what: "annotations",
    hint: "trace with --annotate, and mark steps with `gpuwhy annotate` or the Python module",
};

/// The newest first.
pub fn annotations(reader: &Reader, request: &AnnotationsRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (mut clause, mut values) = chosen.conditions("timestamp_ns");
    for (column, wanted) in [("event", &request.event), ("value", &request.value)] {
        if let Some(wanted) = wanted {
            values.push(wanted.clone().into());
            clause += &format!(" AND {column} = ?{}", values.len());
        }
    }
    let sql = format!(
        "SELECT timestamp_ns, duration_ns, event, value, labels, state, clock, pid, uid, {} FROM annotations{clause} \
         ORDER BY timestamp_ns DESC, event, value",
        process_of("annotations")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
