//! `calls` as people read them: `cuda_events`, `hip_events` and `driver_events`, with names for numbers.

use super::calls::{KEPT, direction_number, kept_number};
use super::host::{node, rank};
use super::{
    BLOCKED, CGROUP, Clock, Column, DURATION, ONCPU, PID, RUNQ, SESSION, STACK, TID, TIMESTAMP, View,
    columns, int, reasons, text,
};
use gpuwhy_model::{Direction, Reason};

const OP: Column = text("op", "", "the function, as the library exports it");
const KEPT_NAME: Column =
    text("kept", "", "why this row was kept: `error`, `slow`, `sample`, `rare` or `all`");
const WEIGHT: Column = int(
    "sample_weight",
    "calls",
    "N where the row was drawn into the 1-in-N sample and stands for N calls, else 0",
);

const CALL_VIEW: &[Column] = columns![
    &[
        TIMESTAMP,
        DURATION,
        OP,
        PID,
        TID,
        CGROUP,
        text(
            "stream",
            "",
            "stream handle, 0x and hex; NULL for the default stream, or where the call has none"
        ),
        int("bytes", "bytes", "bytes the call was about"),
        int("ret", "", "what the call returned; 0 is success"),
        KEPT_NAME,
        STACK,
        ONCPU,
        RUNQ,
        BLOCKED,
    ],
    &reasons::FIRST,
    &[
        text("handle", "", "function, pointer or handle the call was about, 0x and hex"),
        text("caller", "", "address the call returned to, 0x and hex"),
        text("via", "", "`runtime` or `direct` into the driver; NULL where unknown"),
        WEIGHT,
        int("grid_x", "blocks", "launch grid; NULL where the call launches nothing"),
        int("grid_y", "blocks", "launch grid"),
        int("grid_z", "blocks", "launch grid"),
        int("block_x", "threads", "launch block"),
        int("block_y", "threads", "launch block"),
        int("block_z", "threads", "launch block"),
        int("shared_bytes", "bytes", "dynamic shared memory of the launch"),
        SESSION,
        text(
            "kernel",
            "",
            "name of the function a launch runs, see `kernels`; NULL where unknown, and for other calls",
        ),
        text(
            "direction",
            "",
            "of a copy: `host_to_host`, `host_to_device`, `device_to_host`, `device_to_device`, `peer` or `unknown`",
        ),
        text("library", "", "the file the function is in; NULL where unknown"),
        int(
            "gpu",
            "",
            "device the thread had chosen, as its process counts them; NULL where that was not seen"
        ),
        int("first_launch", "", "1 for the first launch of a function by its process, else 0"),
    ],
    &reasons::LATER,
];

const DRIVER_VIEW: &[Column] = columns![
    &[
        TIMESTAMP,
        DURATION,
        text("op", "", "`ioctl` and the device, as `ioctl nvidia-uvm`"),
        PID,
        TID,
        CGROUP,
        text("device", "", "the driver's device file, as `nvidia-uvm`"),
        text("cmd", "", "the ioctl's command, 0x and hex"),
        int("ret", "", "what the ioctl returned; 0 is success"),
        KEPT_NAME,
        STACK,
        ONCPU,
        RUNQ,
        BLOCKED,
    ],
    &reasons::FIRST,
    &[WEIGHT, SESSION],
    &reasons::LATER,
];

pub(crate) const CUDA_EVENTS: View = View {
    name: "cuda_events",
    about: "CUDA runtime, driver and graph calls that were kept in full; the exact sums over all calls are in `call_stats`",
    columns: CALL_VIEW,
    sql: || call_view("cuda", CALL_VIEW, Clock::Blame),
};

pub(crate) const HIP_EVENTS: View = View {
    name: "hip_events",
    about: "HIP calls that were kept in full, as `cuda_events`",
    columns: CALL_VIEW,
    sql: || call_view("hip", CALL_VIEW, Clock::Blame),
};

pub(crate) const DRIVER_EVENTS: View = View {
    name: "driver_events",
    about: "ioctls on the GPU driver's device files that were kept in full; the exact sums over all are in `driver_stats`",
    columns: DRIVER_VIEW,
    sql: || call_view("driver", DRIVER_VIEW, Clock::Blame),
};

/// The device an operation of the layer `driver` is named after.
pub(super) fn device_of(op: &str) -> String {
    format!("substr({op}, length('ioctl ') + 1)")
}

fn zero_if_null(column: &str) -> String {
    format!("ifnull(c.{column}, 0)")
}

fn hex(column: &str) -> String {
    format!("CASE WHEN c.{column} IS NOT NULL THEN printf('0x%x', c.{column}) END")
}

fn kept_name() -> String {
    let arms: String = KEPT
        .into_iter()
        .filter_map(|kept| Some(format!(" WHEN {} THEN '{}'", kept_number(kept)?, kept.name())))
        .collect();
    format!("CASE c.kept{arms} END")
}

fn direction_name() -> String {
    let arms: String = Direction::ALL
        .into_iter()
        .map(|direction| format!(" WHEN {} THEN '{}'", direction_number(direction), direction.name()))
        .collect();
    format!("CASE c.direction{arms} END")
}

fn blocked() -> String {
    Reason::ALL.map(|reason| zero_if_null(reason.column())).join(" + ")
}

/// What only a recorder with the blame clock, or one that follows kernels, knows of a call.
fn watched(column: &str) -> bool {
    let part = |name: &str| {
        matches!(name, "oncpu" | "runq" | "blocked") || Reason::ALL.iter().any(|reason| reason.name() == name)
    };
    column == "first_launch" || column.strip_suffix("_ns").is_some_and(part)
}

/// One column of a view over `calls c` and `ops o`. What has to be looked up is a subquery, which SQLite leaves out
/// where nobody selects the column.
pub(super) fn call_column(name: &str, clock: Clock) -> String {
    match name {
        name if clock == Clock::None && watched(name) => "NULL".into(),
        "op" | "layer" => format!("o.{name}"),
        "kept" => kept_name(),
        "blocked_ns" => blocked(),
        "stream" | "handle" | "caller" => hex(name),
        "via" => "CASE c.via WHEN 1 THEN 'runtime' WHEN 2 THEN 'direct' END".into(),
        "bytes" | "ret" | "sample_weight" => zero_if_null(name),
        "timestamp_ns" => "c.timestamp_ns".into(),
        name if name.ends_with("_ns") => zero_if_null(name),
        "rank" => rank("c"),
        "node" => node("c"),
        "kernel" => "CASE WHEN o.family = 'launch' THEN (SELECT k.name FROM kernels k WHERE k.pid = c.pid \
                     AND k.handle = printf('0x%x', c.handle)) END"
            .into(),
        "direction" => direction_name(),
        "library" => "(SELECT l.file FROM libraries l WHERE l.library_id = c.library_id)".into(),
        "gpu" => "c.device".into(),
        "first_launch" => zero_if_null("first"),
        "device" => device_of("o.op"),
        "cmd" => hex("handle"),
        name => format!("c.{name}"),
    }
}

/// `CROSS JOIN` fixes the order: the calls lead, by time, and each looks its operation up.
pub(crate) fn call_view(layer: &str, columns: &[Column], clock: Clock) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|column| format!("{} AS {}", call_column(column.name, clock), column.name))
        .collect();
    format!(
        "SELECT {} FROM calls c CROSS JOIN ops o WHERE o.op_id = c.op_id AND o.layer = '{layer}'",
        columns.join(", ")
    )
}
