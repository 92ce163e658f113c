//! `blame`: where the time in calls went, and who was behind it.

use crate::since::{first_window, from_ns, in_order, nothing, selection, stored};
use crate::{QueryError, Rows};
use gpuwhy_store::{Filter, Limits, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the time is summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlameBy {
    Op,
    Cause,
    /// Who was behind it.
    By,
    Pid,
}

impl BlameBy {
    fn columns(self) -> &'static str {
        match self {
            BlameBy::Op => "op",
            BlameBy::Cause => "cause",
            BlameBy::By => "by_pid, by_comm",
            BlameBy::Pid => "pid",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BlameRequest {
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only this class of cause, as `cpu.preempted`.
    pub cause: Option<String>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// Operation, cause and culprit where nothing is given.
    pub by: Vec<BlameBy>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

/// Most time first, with its share of all the time that was selected.
pub fn blame(reader: &Reader, request: &BlameRequest) -> Result<Rows, QueryError> {
    in_order(request.from_ns, request.to_ns)?;
    let from = from_ns(reader, request.since.as_deref())?.or(request.from_ns.map(first_window)).map(stored);
    let to_ns = request.to_ns.map(stored);
    let filter = Filter { op: request.op.clone(), pid: request.pid, from_ns: from, to_ns };
    let (mut clause, mut values) = filter.clause("window_start_ns");
    if let Some(cause) = &request.cause {
        values.push(cause.clone().into());
        clause += if clause.is_empty() { " WHERE " } else { " AND " };
        clause += &format!("cause = ?{}", values.len());
    }
    let by =
        if request.by.is_empty() { &[BlameBy::Op, BlameBy::Cause, BlameBy::By][..] } else { &request.by };
    let mut columns: Vec<&str> = Vec::new();
    for column in by.iter().map(|by| by.columns()) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let columns = columns.join(", ");
    let sql = format!(
        "SELECT {columns}, sum(ns) / 1e6 AS ms, 100.0 * sum(ns) / nullif(sum(sum(ns)) OVER (), 0) AS pct, \
         sum(count) AS count FROM blame{clause} GROUP BY {columns} ORDER BY sum(ns) DESC, {columns}"
    );
    let mut limits = Limits::default();
    limits.rows = request.limit.unwrap_or(limits.rows);
    let answer = reader.select(&sql, &values, &limits)?;
    if answer.rows.is_empty() && limits.rows > 0 {
        let mut selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        if let Some(cause) = &request.cause {
            selection += &format!(" with cause {cause}");
        }
        return Err(nothing(reader, "blame", &selection)?);
    }
    Ok(Rows::new(answer, reader.coverage(from)?))
}
