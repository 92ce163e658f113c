//! `operations`: every operation with its percentiles, from the exact sums over all calls; counts of those that were watched in
//! slices of time are estimates with an interval.

use crate::estimates::{Estimates, scale};
use crate::since::{first_window, from_ns, in_order, nothing, selection, span, stored};
use crate::{QueryError, Rows};
use gpuwhy_model::Estimate;
use gpuwhy_store::{Answer, CallStats, Filter, Reader, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OperationsRequest {
    /// Only this operation, as `cuLaunchKernel` or `cudaStreamSynchronize`.
    pub op: Option<String>,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

/// The columns of the `op_summary` view, of the windows that are asked for, and in traces with slices the interval of
/// counts that are estimates; most time first.
pub fn operations(reader: &Reader, request: &OperationsRequest) -> Result<Rows, QueryError> {
    in_order(request.from_ns, request.to_ns)?;
    let from = from_ns(reader, request.since.as_deref())?.or(request.from_ns.map(first_window)).map(stored);
    let to_ns = request.to_ns.map(stored);
    let filter = Filter { op: request.op.clone(), pid: request.pid, from_ns: from, to_ns };
    let mut sums: BTreeMap<(String, u32), CallStats> = BTreeMap::new();
    reader.each_call_stats(&filter, |window| match sums.get_mut(&(window.op.clone(), window.pid)) {
        Some(sum) => sum.merge(&window),
        None => drop(sums.insert((window.op.clone(), window.pid), window)),
    })?;
    if sums.is_empty() {
        let selection = selection(request.op.as_deref(), request.pid, request.since.as_deref());
        return Err(nothing(reader, "calls", &selection)?);
    }
    let within = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let estimates = Estimates::read(reader, within)?;
    let mut all: BTreeMap<String, Operation> = BTreeMap::new();
    for ((op, pid), sum) in sums {
        let estimate = estimates.as_ref().and_then(|estimates| estimates.calls(pid, &op, within));
        let is_partial = estimates.as_ref().is_some_and(|estimates| estimates.class(&op).is_some());
        all.entry(op).or_default().add(sum, estimate, is_partial);
    }
    let mut sums: Vec<Operation> = all.into_values().collect();
    sums.sort_by(|a, b| b.sum.sum_ns.cmp(&a.sum.sum_ns).then_with(|| a.sum.op.cmp(&b.sum.op)));
    let limit = request.limit.unwrap_or(usize::MAX);
    let has_slices = estimates.is_some();
    let truncated = sums.len() > limit;
    sums.truncate(limit);
    let answer = Answer {
        columns: COLUMNS
            .iter()
            .chain(INTERVAL.iter().filter(|_| has_slices))
            .map(ToString::to_string)
            .collect(),
        rows: sums.iter().map(|operation| row(operation, has_slices)).collect(),
        truncated,
    };
    Ok(Rows::new(answer, reader.coverage(from)?))
}

/// An operation of all processes.
#[derive(Debug, Default)]
struct Operation {
    sum: CallStats,
    /// Where it was not watched all the time: the interval of the count, and how much was watched.
    low: f64,
    high: f64,
    watched_pct: Option<f64>,
    /// Of some processes too little was watched to tell more than what was counted.
    is_partial: bool,
}

impl Operation {
    fn add(&mut self, mut sum: CallStats, estimate: Option<Estimate>, is_sliced: bool) {
        let counted = sum.count as f64;
        if let Some(estimate) = &estimate {
            scale(&mut sum, estimate);
            self.watched_pct =
                Some(self.watched_pct.map_or(estimate.watched_pct, |pct| pct.min(estimate.watched_pct)));
        }
        self.is_partial |= is_sliced && estimate.is_none();
        self.low += estimate.map_or(counted, |estimate| estimate.low);
        self.high += estimate.map_or(counted, |estimate| estimate.high);
        match self.sum.count {
            0 => self.sum = sum,
            _ => self.sum.merge(&sum),
        }
    }
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

/// Besides, in traces with slices.
const INTERVAL: [&str; 3] = ["count_low", "count_high", "watched_pct"];

fn row(operation: &Operation, has_slices: bool) -> Vec<Value> {
    let sum = &operation.sum;
    let whole = |number: f64| Value::Integer(number.round() as i64);
    let is_estimate = operation.watched_pct.is_some() || operation.is_partial;
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
    let mut row = vec![
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
    ];
    if has_slices {
        // Where nothing is estimated the count is exact; where too little was watched it is the least.
        row.extend([
            if is_estimate { whole(operation.low) } else { Value::Null },
            if is_estimate && !operation.is_partial { whole(operation.high) } else { Value::Null },
            operation.watched_pct.map_or(Value::Null, Value::Real),
        ]);
    }
    row
}
