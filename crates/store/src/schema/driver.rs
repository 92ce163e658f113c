//! Who is in the GPU driver, and for how long: `driver_stats`.

use super::call_views::device_of;
use super::{BLOCKED, Column, ONCPU, PID, RUNQ, SESSION, View, columns, int, reasons, text};

pub(crate) const DRIVER_STATS: View = View {
    name: "driver_stats",
    about: "all ioctls of one process on one of the GPU driver's device files in one window: exact, kept or not",
    columns: COLUMNS,
    sql: driver_stats,
};

const COLUMNS: &[Column] = columns![
    &[
        int("window_start_ns", "ns", "when the window began, unix time"),
        int("window_ns", "ns", "how long the window was"),
        PID,
        text("op", "", "`ioctl` and the device, as `ioctl nvidia-uvm`"),
        text("device", "", "the driver's device file, as `nvidia-uvm`"),
        int("cgroup_id", "", "cgroup of the process, as the kernel numbers them"),
        text("cgroup", "", "path of its cgroup"),
        int("count", "calls", "ioctls that returned in the window"),
        int("sum_ns", "ns", "their durations, summed"),
        int("min_ns", "ns", "the shortest"),
        int("max_ns", "ns", "the longest"),
        int("errors", "calls", "how many returned an error"),
        int("kept", "calls", "how many were kept in full"),
        ONCPU,
        RUNQ,
        BLOCKED,
    ],
    &reasons::FIRST,
    &[SESSION],
    &reasons::LATER,
];

/// The windows lead, by time; which operations are the driver's is looked up once.
fn driver_stats() -> String {
    let columns = COLUMNS.iter().map(|column| {
        let value = match column.name {
            "device" => device_of("s.op"),
            "cgroup_id" | "cgroup" => process(column.name),
            name => format!("s.{name}"),
        };
        format!("{value} AS {}", column.name)
    });
    format!(
        "SELECT {} FROM call_stats s WHERE s.op IN (SELECT o.op FROM ops o WHERE o.layer = 'driver')",
        columns.collect::<Vec<_>>().join(", ")
    )
}

/// What is known of the process that had this number then.
fn process(column: &str) -> String {
    format!(
        "(SELECT p.{column} FROM processes p WHERE p.pid = s.pid AND p.start_ns <= s.window_start_ns + s.window_ns \
         ORDER BY p.start_ns DESC LIMIT 1)"
    )
}
