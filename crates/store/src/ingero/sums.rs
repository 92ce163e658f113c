//! `call_stats` of an Ingero file: sums over stored rows, and Ingero's own over all calls where it wrote them.

use super::kinds::{CALLS, OPS_A_SOURCE};
use super::shape::Shape;
use super::views::{call, calls_from, op_id};

/// A second where all that is known are stored rows; where there are Ingero's sums, its minute.
const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;

/// Stored calls by window, process and operation, beside the sums over all calls where the file has them. Ingero's
/// own count of stored calls is not used: it counts what was meant to be stored.
pub(super) fn from(shape: &Shape) -> String {
    let window = window_ns(shape);
    let errors = format!("sum(ifnull({}, 0) <> 0)", shape.event("ret_code"));
    let bytes = call(shape, "bytes").unwrap_or_else(|| "NULL".into());
    let by_bucket = format!(
        "SELECT e.timestamp / {window} * {window} AS start, e.pid AS pid, {} AS op_id, hist_bucket(e.duration) AS bucket, \
         count(*) AS n, sum(e.duration) AS d, min(e.duration) AS lo, max(e.duration) AS hi, {errors} AS errors, \
         sum({bytes}) AS bytes FROM {} GROUP BY 1, 2, 3, 4",
        op_id(),
        calls_from()
    );
    let stored = format!(
        "(SELECT start, pid, op_id, sum(n) AS n, sum(d) AS d, min(lo) AS lo, max(hi) AS hi, sum(errors) AS errors, \
         ifnull(sum(bytes), 0) AS bytes, json_group_object(bucket, n) AS hist FROM ({by_bucket}) GROUP BY 1, 2, 3)"
    );
    let all = match shape.has_sums() {
        false => format!("{stored} w"),
        true => {
            let of = sums_where("a");
            let sums = format!(
                "(SELECT a.bucket AS start, a.pid AS pid, a.source * {OPS_A_SOURCE} + a.op AS op_id, a.count AS n, \
                 a.sum_dur AS d, a.min_dur AS lo, a.max_dur AS hi FROM main.event_aggregates a WHERE {of})"
            );
            // Sums that were not written before the recorder died are less than what is stored.
            let larger = |column: &str| {
                format!("iif(ifnull(a.n, 0) >= ifnull(s.n, 0), a.{column}, s.{column}) AS {column}")
            };
            format!(
                "(SELECT coalesce(a.start, s.start) AS start, coalesce(a.pid, s.pid) AS pid, \
                 coalesce(a.op_id, s.op_id) AS op_id, {}, {}, {}, {}, ifnull(s.errors, 0) AS errors, \
                 ifnull(s.bytes, 0) AS bytes, ifnull(s.hist, '{{}}') AS hist, ifnull(s.n, 0) AS stored \
                 FROM {stored} s FULL JOIN {sums} a ON a.start = s.start AND a.pid = s.pid AND a.op_id = s.op_id) w",
                larger("n"),
                larger("d"),
                larger("lo"),
                larger("hi")
            )
        }
    };
    format!("{all} CROSS JOIN ops o WHERE o.op_id = w.op_id")
}

pub(super) fn column(shape: &Shape, name: &str) -> Option<String> {
    Some(match name {
        "window_start_ns" => "w.start".into(),
        "window_ns" => window_ns(shape).to_string(),
        "op" => "o.op".into(),
        "count" => "w.n".into(),
        "sum_ns" => "w.d".into(),
        "min_ns" => "w.lo".into(),
        "max_ns" => "w.hi".into(),
        "kept" => if shape.has_sums() { "w.stored" } else { "w.n" }.into(),
        "pid" | "hist" | "errors" | "bytes" => format!("w.{name}"),
        _ => return None,
    })
}

fn window_ns(shape: &Shape) -> i64 {
    if shape.has_sums() { MINUTE_NS } else { SECOND_NS }
}

fn sums_where(alias: &str) -> String {
    format!("{alias}.source IN ({})", CALLS.map(|source| source.to_string()).join(", "))
}

/// How many calls from a time on were counted in sums but not stored.
pub(super) fn sampled() -> String {
    let from = format!("?1 / {MINUTE_NS} * {MINUTE_NS}");
    format!(
        "SELECT (SELECT ifnull(sum(a.count), 0) FROM main.event_aggregates a WHERE {} AND a.bucket >= {from}) - \
         (SELECT count(*) FROM {} AND e.timestamp >= {from})",
        sums_where("a"),
        calls_from()
    )
}
