//! Where the sessions of a merged file came from.

use super::{Table, int, text};

pub(crate) const MERGED: Table = Table {
    name: "merged",
    about: "the file each session of a merged trace came from, and what was done to its times and process numbers; empty in \
            a trace that was not merged",
    columns: &[
        int("session_id", "", "the session, as it is numbered here").required(),
        text("file", "", "name of the file it came from").required(),
        int("clock_shift_ns", "ns", "what was added to all its times").required(),
        int("clock_error_ns", "ns", "by how much the shift may be wrong at most; NULL where nothing tells"),
        text(
            "clock_source",
            "",
            "what tells: `reference` (the clock the others were aligned to), `collectives` (those the nodes took part in \
             together), `measured` (what each node said its time is, when its trace was fetched), or `none`",
        )
        .required(),
        int("clock_collectives", "", "how many collectives tell"),
        int(
            "pid_shift",
            "",
            "what was added to numbers of its processes and threads that another node uses, too; 0 where there were none",
        )
        .required(),
        int("pids_shifted", "", "how many processes that was").required(),
    ],
    key: &["session_id"],
    clustered: false,
    age: None,
    layer: None,
};

/// Columns that are points in time; the others that end in `_ns` are durations.
pub(crate) const TIMES: [&str; 18] = [
    "timestamp_ns",
    "window_start_ns",
    "start_ns",
    "end_ns",
    "completed_ns",
    "first_ns",
    "last_ns",
    "created_ns",
    "destroyed_ns",
    "allocated_ns",
    "freed_ns",
    "seen_ns",
    "ended_ns",
    "since_ns",
    "first_seen_ns",
    "last_seen_ns",
    "time_ns",
    "before_ns",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TABLES;

    /// A new column must be put on one of the two lists, or a merge would leave its times as they were.
    #[test]
    fn every_column_of_nanoseconds_is_known_as_a_time_or_a_duration() {
        let durations = "duration_ns window_ns sum_ns min_ns max_ns oncpu_ns runq_ns blocked_ns lower_ns upper_ns ns wait_ns \
                         queue_ns launch_ns capture_ns instantiate_ns busy_lower_ns busy_upper_ns cost_ns clock_offset_ns \
                         clock_shift_ns clock_error_ns weight_ns slowed_ns";
        let reasons = gpuwhy_model::Reason::ALL.map(gpuwhy_model::Reason::column);
        for table in TABLES {
            for column in table.columns.iter().filter(|column| column.unit == "ns") {
                let duration = durations.split_whitespace().chain(reasons).any(|name| name == column.name);
                let time = TIMES.contains(&column.name);
                assert!(duration != time, "{}.{}", table.name, column.name);
            }
        }
    }
}
