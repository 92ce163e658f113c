//! Exact sums over all calls, kept or not, and the time billed to causes.

use super::{
    BLOCKED, BY_CGROUP, BY_COMM, BY_PID, BY_TID, ONCPU, PID, RUNQ, SESSION, TID, Table, View, columns, int,
    real, reasons, required, text,
};

pub(crate) const CALL_STATS: Table = Table {
    name: "call_stats",
    about: "all calls of one operation by one process in one window: exact, kept or not",
    columns: columns![
        &[
            int("window_start_ns", "ns", "when the window began, unix time").required(),
            int("window_ns", "ns", "how long the window was; of calls that were watched in slices, the part of it that was watched").required(),
            PID.required(),
            text("op", "", "operation").required(),
            int("count", "calls", "calls that returned in the window").required(),
            int("sum_ns", "ns", "their durations, summed").required(),
            int("min_ns", "ns", "the shortest").required(),
            int("max_ns", "ns", "the longest").required(),
            text(
                "hist",
                "calls",
                "their durations as a JSON object, bucket number to count; see `hist_buckets`"
            )
            .required(),
            int("errors", "calls", "how many returned an error").required(),
            int("kept", "calls", "how many were kept in full").required(),
            int("bytes", "bytes", "bytes they were about, summed").required(),
            ONCPU.required(),
            RUNQ.required(),
            BLOCKED.required(),
        ],
        &required(reasons::FIRST),
        &[SESSION],
        &reasons::LATER,
    ],
    key: &["window_start_ns", "pid", "op"],
    clustered: true,
    age: Some("window_start_ns"),
    layer: None,
};

pub(crate) const HIST_BUCKETS: Table = Table {
    name: "hist_buckets",
    about: "the buckets of `call_stats.hist`: eight to an octave, the same in every file",
    columns: &[
        int("bucket", "", "number of the bucket").required(),
        int("lower_ns", "ns", "shortest duration in it").required(),
        int("upper_ns", "ns", "durations in it are shorter than this").required(),
    ],
    key: &["bucket"],
    clustered: false,
    age: None,
    layer: None,
};

pub(crate) const BLAME: Table = Table {
    name: "blame",
    about: "time spent inside calls, by operation, thread, cause and culprit",
    columns: &[
        int("window_start_ns", "ns", "when the window began, unix time").required(),
        PID.required(),
        TID.required(),
        text("op", "", "the call the thread was in; NULL between calls"),
        text("cause", "", "class of the cause, such as `cpu.preempted`").required(),
        BY_PID,
        BY_TID,
        BY_COMM,
        int("ns", "ns", "time billed").required(),
        int("count", "", "how many waits").required(),
        SESSION,
        BY_CGROUP,
    ],
    key: &[],
    clustered: false,
    age: Some("window_start_ns"),
    layer: None,
};

pub(crate) const OP_SUMMARY: View = View {
    name: "op_summary",
    about: "every operation over the whole file, from the exact sums of `call_stats`; the question `operations` scales what was watched in slices",
    columns: &[
        text("op", "", "operation"),
        int(
            "count",
            "calls",
            "calls that were counted; those of classes in `watch_slices` were watched for a part of the time only",
        ),
        real("p50_us", "us", "median duration"),
        real("p95_us", "us", "95th percentile"),
        real("p99_us", "us", "99th percentile"),
        real("p999_us", "us", "99.9th percentile"),
        real("max_us", "us", "the longest"),
        real("mean_us", "us", "mean duration"),
        int("errors", "calls", "calls that returned an error"),
        real("oncpu_pct", "%", "share of their time on the CPU"),
        real("runq_pct", "%", "share runnable, but something else had the CPU"),
        real("blocked_pct", "%", "share blocked"),
    ],
    sql: op_summary,
};

/// Plain SQL, so that any SQLite from 3.38 on can compute it. A quantile is interpolated within its bucket and
/// cannot pass the longest call.
fn op_summary() -> String {
    let quantile = |name: &str, q: &str| {
        format!(
            "min(max(CASE WHEN below < max({q} * total, 1.0) AND below + n >= max({q} * total, 1.0) THEN \
             lower_ns + CAST((upper_ns - lower_ns) * ((max({q} * total, 1.0) - below) / n) AS INTEGER) END), \
             s.max_ns) / 1000.0 AS {name}"
        )
    };
    let share = |name: &str| format!("100.0 * s.{name}_ns / nullif(s.sum_ns, 0) AS {name}_pct");
    format!(
        "WITH s AS (SELECT op, sum(count) AS count, sum(sum_ns) AS sum_ns, max(max_ns) AS max_ns, \
         sum(errors) AS errors, sum(oncpu_ns) AS oncpu_ns, sum(runq_ns) AS runq_ns, sum(blocked_ns) AS blocked_ns \
         FROM call_stats GROUP BY op),\n\
         b AS (SELECT c.op AS op, CAST(j.key AS INTEGER) AS bucket, sum(j.value) AS n \
         FROM call_stats c, json_each(c.hist) j GROUP BY 1, 2),\n\
         h AS (SELECT op, bucket, n, sum(n) OVER (PARTITION BY op ORDER BY bucket) - n AS below, \
         sum(n) OVER (PARTITION BY op) AS total FROM b)\n\
         SELECT s.op AS op, s.count AS count, {}, {}, {}, {}, s.max_ns / 1000.0 AS max_us, \
         s.sum_ns / 1000.0 / nullif(s.count, 0) AS mean_us, s.errors AS errors, {}, {}, {} \
         FROM s LEFT JOIN h ON h.op = s.op LEFT JOIN hist_buckets k ON k.bucket = h.bucket \
         GROUP BY s.op ORDER BY s.sum_ns DESC",
        quantile("p50_us", "0.5"),
        quantile("p95_us", "0.95"),
        quantile("p99_us", "0.99"),
        quantile("p999_us", "0.999"),
        share("oncpu"),
        share("runq"),
        share("blocked"),
    )
}
