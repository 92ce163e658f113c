//! `operations`: every operation with its percentiles, from the exact sums over all calls.

use crate::since::{from_ns, nothing, selection};
use crate::{QueryError, Rows};
use gpuwhy_store::{Answer, CallStats, Filter, Reader, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OperationsRequest {
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

/// The columns of the `op_summary` view, of the windows that are asked for; most time first.
pub fn operations(reader: &Reader, request: &OperationsRequest) -> Result<Rows, QueryError> {
    let from = from_ns(reader, request.since.as_deref())?;
    let filter = Filter { op: request.op.clone(), pid: request.pid, from_ns: from, to_ns: None };
    let mut sums: HashMap<String, CallStats> = HashMap::new();
    reader.each_call_stats(&filter, |window| match sums.get_mut(&window.op) {
        Some(sum) => sum.merge(&window),
        None => drop(sums.insert(window.op.clone(), window)),
    })?;
    if sums.is_empty() {
        let selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(nothing(reader, "calls", &selection)?);
    }
    let mut sums: Vec<CallStats> = sums.into_values().collect();
    sums.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then_with(|| a.op.cmp(&b.op)));
    let limit = request.limit.unwrap_or(usize::MAX);
    let truncated = sums.len() > limit;
    sums.truncate(limit);
    let answer = Answer {
        columns: COLUMNS.iter().map(ToString::to_string).collect(),
        rows: sums.iter().map(row).collect(),
        truncated,
    };
    Ok(Rows::new(answer, reader.coverage(from)?))
}

const COLUMNS: [&str; 12] = [
    "op",
    "count",
    "p50_us",
    "p95_us",
    "p99_us",
    "p999_us",
    "max_us",
    "mean_us",
    "errors",
    "oncpu_pct",
    "runq_pct",
    "blocked_pct",
];

fn row(sum: &CallStats) -> Vec<Value> {
    let us = |ns: u64| Value::Real(ns as f64 / 1000.0);
    // Where nothing is known of the time, as in traces of other tools, it was not zero.
    let share = |ns: u64| match sum.sum_ns {
        _ if sum.blame.total_ns() == 0 => Value::Null,
        0 => Value::Null,
        whole => Value::Real(100.0 * ns as f64 / whole as f64),
    };
    let mean = match sum.count {
        0 => Value::Null,
        count => Value::Real(sum.sum_ns as f64 / 1000.0 / count as f64),
    };
    vec![
        Value::Text(sum.op.clone()),
        Value::Integer(sum.count as i64),
        us(sum.quantile_ns(0.5)),
        us(sum.quantile_ns(0.95)),
        us(sum.quantile_ns(0.99)),
        us(sum.quantile_ns(0.999)),
        us(sum.max_ns),
        mean,
        Value::Integer(sum.errors as i64),
        share(sum.blame.oncpu_ns),
        share(sum.blame.runq_ns),
        share(sum.blame.blocked_total_ns()),
    ]
}
