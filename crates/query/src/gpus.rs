//! `gpus`: what the GPUs' counters said: last, and over the time that is asked for.

use crate::chosen::{Chosen, Subject};
use crate::{QueryError, Rows};
use gpuwhy_store::schema::{self, Column};
use gpuwhy_store::{Reader, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GpusRequest {
    /// Only this GPU.
    pub gpu: Option<u32>,
    /// GPUs that this process has used.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject =
    Subject { what: "GPU samples", hint: "trace where the driver's library (NVML) is installed" };

const COLUMNS: [&str; 11] =
    ["gpu", "mig", "uuid", "name", "metric", "unit", "last", "min", "mean", "max", "samples"];

/// A row for each GPU and counter that it has; the reasons for which it lowered its clocks as shares of the samples.
pub fn gpus(reader: &Reader, request: &GpusRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, None, request.since.as_deref(), request.limit)?;
    // All rows are needed to make some.
    let all = Chosen::new(reader, None, request.since.as_deref(), None)?;
    let (mut clause, mut values) = chosen.conditions("timestamp_ns");
    if let Some(gpu) = request.gpu {
        values.push(i64::from(gpu).into());
        clause += &format!(" AND gpu = ?{}", values.len());
    }
    if let Some(pid) = request.pid {
        values.push(i64::from(pid).into());
        clause += &format!(" AND gpu IN (SELECT gpu FROM gpu_processes WHERE pid = ?{})", values.len());
    }
    let metrics = metrics();
    let each = |make: &dyn Fn(&str) -> String| -> String {
        metrics.iter().map(|metric| format!(", {}", make(metric.name))).collect()
    };
    // The last sample is found by its time; the sums need a statement of their own, for SQLite gives one row's values
    // beside one largest value only.
    let last = format!(
        "SELECT gpu, mig, uuid, name, throttle_reasons, max(timestamp_ns){} FROM gpu_samples{clause} \
         GROUP BY gpu, mig, uuid ORDER BY gpu, mig, uuid",
        each(&|metric| metric.into())
    );
    let sums = format!(
        "SELECT count(*){} FROM gpu_samples{clause} GROUP BY gpu, mig, uuid ORDER BY gpu, mig, uuid",
        each(&|metric| format!("min({metric}), avg({metric}), max({metric}), count({metric})"))
    );
    let throttled = format!(
        "SELECT gpu, mig, uuid, j.value, count(*) FROM gpu_samples, json_each(throttle_reasons) j{clause} \
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    );
    let throttled = all.select(&throttled, &values)?.rows;
    let mut rows = Vec::new();
    for (last, sums) in all.select(&last, &values)?.rows.iter().zip(&all.select(&sums, &values)?.rows) {
        let (gpu, now, samples) = (&last[..4], &last[6..], number(&sums[0]));
        for (metric, (now, sums)) in metrics.iter().zip(now.iter().zip(sums[1..].chunks(4))) {
            let [min, mean, max, count] = sums else { continue };
            if number(count) > 0.0 {
                let named = [Value::Text(metric.name.into()), Value::Text(metric.unit.into()), now.clone()];
                rows.push([gpu, &named, &[min.clone(), mean.clone(), max.clone(), count.clone()]].concat());
            }
        }
        for reason in throttled.iter().filter(|row| row[..3] == gpu[..3]) {
            let Value::Text(name) = &reason[3] else { continue };
            let now = matches!(&last[4], Value::Text(reasons) if reasons.contains(&format!("\"{name}\"")));
            let named = [Value::Text(format!("throttle.{name}")), Value::Text("%".into())];
            let share = Value::Real(100.0 * number(&reason[4]) / samples.max(1.0));
            let last = Value::Real(if now { 100.0 } else { 0.0 });
            let rest = [last, Value::Null, share, Value::Null, sums[0].clone()];
            rows.push([gpu, &named, &rest].concat());
        }
    }
    chosen.answer(SUBJECT, chosen.cut(&COLUMNS, rows))
}

/// The counters of a sample: all its numbers but those that say which sample it is.
fn metrics() -> Vec<&'static Column> {
    let samples = schema::table("gpu_samples").map_or(&[][..], |table| table.columns);
    let which = ["timestamp_ns", "gpu", "session_id"];
    samples.iter().filter(|column| column.kind != "TEXT" && !which.contains(&column.name)).collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Real(number) => *number,
        _ => 0.0,
    }
}
