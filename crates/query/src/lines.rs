//! `lines`: where in the code calls were made, by the innermost line of the program's own.

use crate::chosen::{Chosen, Subject, process_of};
use crate::{QueryError, Rows};
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinesRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
    /// Only this operation.
    pub op: Option<String>,
}

const SUBJECT: Subject = Subject { what: "kept calls with stacks", hint: "trace with --stacks auto or on" };

/// Kept calls by operation and line: the innermost Python line, else the innermost native function. Most time first.
pub fn lines(reader: &Reader, request: &LinesRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (mut clause, mut values) = chosen.conditions("timestamp_ns");
    if let Some(op) = &request.op {
        clause.push_str(" AND op = ?");
        values.push(op.clone().into());
    }
    let sql = format!(
        "WITH own AS (SELECT stack_id, min(CASE kind WHEN 'python' THEN depth ELSE depth + 1000 END) AS best FROM frames \
         WHERE kind = 'python' OR function IS NOT NULL GROUP BY 1), \
         line AS (SELECT f.stack_id, f.kind, f.function, f.file, f.line FROM own JOIN frames f ON f.stack_id = own.stack_id \
         AND f.depth = own.best % 1000) \
         SELECT pid, {}, op, line.kind AS kind, line.function AS function, line.file AS file, line.line AS line, \
         count(*) AS kept, sum(duration_ns) / 1e6 AS ms, max(duration_ns) / 1e3 AS max_us \
         FROM cuda_events JOIN line ON line.stack_id = cuda_events.stack_id{clause} \
         GROUP BY pid, op, kind, function, file, line ORDER BY sum(duration_ns) DESC",
        process_of("cuda_events")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
