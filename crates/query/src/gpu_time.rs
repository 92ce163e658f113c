//! `gpu_time`: how busy each stream was, between two bounds, and what launching took.

use crate::chosen::{Chosen, Subject, process_of};
use crate::estimates::{Factors, scaled};
use crate::since::span;
use crate::{QueryError, Rows};
use gpuwhy_model::CallClass;
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GpuTimeRequest {
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

const SUBJECT: Subject = Subject { what: "GPU time", hint: "trace while a process submits work to the GPU" };

/// By process and stream; busiest first. Percentages are of the time from the first window to the last that any stream
/// was used in, so that those of two processes can be compared.
pub fn gpu_time(reader: &Reader, request: &GpuTimeRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let (clause, values) = chosen.clause("window_start_ns");
    let from = chosen.first("window_start_ns").map(|ns| format!("window_start_ns >= {ns}"));
    let to = chosen.to_ns.map(|ns| format!("window_start_ns < {ns}"));
    let bounds: Vec<String> = from.into_iter().chain(to).collect();
    let everybody =
        if bounds.is_empty() { String::new() } else { format!(" WHERE {}", bounds.join(" AND ")) };
    // Between slices nobody knows how busy a stream was, and launches stand for those that were not watched.
    let within = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let factors = Factors::read(reader, within, CallClass::Launches, "t.pid")?;
    let launches = scaled(factors.as_ref(), "sum(t.launches)");
    let interval = Factors::interval_columns(factors.as_ref(), "sum(t.launches)", "launches");
    let (upper, launch_ns) = match &factors {
        Some(Factors { value, .. }) => (
            format!("iif(ifnull({value}, 2) > 1.001, w.ns, sum(t.busy_upper_ns))"),
            format!("sum(t.launch_ns) * {value}"),
        ),
        None => ("sum(t.busy_upper_ns)".into(), "sum(t.launch_ns)".into()),
    };
    let sql = format!(
        "SELECT t.pid, {}, t.stream, t.stream_tid, sum(t.busy_lower_ns) AS busy_lower_ns, \
         {upper} AS busy_upper_ns, 100.0 * sum(t.busy_lower_ns) / nullif(w.ns, 0) AS busy_lower_pct, \
         100.0 * {upper} / nullif(w.ns, 0) AS busy_upper_pct, sum(t.submitted) AS submitted, \
         {launches} AS launches, {launch_ns} / 1e6 AS launch_ms, \
         sum(t.launch_ns) / 1e3 / nullif(sum(t.launches), 0) AS mean_launch_us, w.ns AS window_ns{interval} \
         FROM (SELECT * FROM gpu_time{clause}) t, \
         (SELECT max(window_start_ns + window_ns) - min(window_start_ns) AS ns FROM gpu_time{everybody}) w \
         GROUP BY t.pid, t.stream, t.stream_tid ORDER BY sum(t.busy_upper_ns) DESC, t.pid, t.stream, t.stream_tid",
        process_of("t")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
