//! Kept calls: stored narrow in `calls`, read through `cuda_events`, `hip_events` and `events`.

use super::{
    BLOCK_IO, BLOCKED, CGROUP, Column, DURATION, FAULT, FILE, FUTEX, IOCTL, ONCPU, OTHER, PID, POLL, RUNQ,
    SESSION, SLEEP, SOCKET, STACK, TABLES, TID, TIMESTAMP, Table, View, int, text,
};
use gpuwhy_model::{Kept, Reason};

/// Integers only, NULL for zero, one index: this table decides how fast a trace can be written.
pub(crate) const CALLS: Table = Table {
    name: "calls",
    about: "every call that was kept in full, as stored; read `cuda_events` or `hip_events` instead. NULL is zero",
    columns: &[
        // Never NULL, but not declared so: an insert of many rows that can fail half way must be able to undo
        // the first half, and SQLite's journal for that costs a tenth of the speed.
        Column { required: false, ..TIMESTAMP },
        DURATION,
        int("op_id", "", "operation, see `ops`"),
        PID,
        TID,
        CGROUP,
        int("kept", "", "why it was kept: 1 error, 2 slow, 3 sample, 4 rare, 5 all"),
        int("sample_weight", "calls", "N where the call was drawn into the 1-in-N sample"),
        int("ret", "", "what the call returned"),
        int("bytes", "bytes", "bytes the call was about"),
        int("stream", "", "stream handle"),
        int("handle", "", "function, pointer or handle the call was about"),
        int("caller", "", "address the call returned to"),
        int("via", "", "1 through the runtime library, 2 straight into the driver"),
        STACK,
        ONCPU,
        RUNQ,
        FUTEX,
        BLOCK_IO,
        FILE,
        SOCKET,
        POLL,
        IOCTL,
        FAULT,
        SLEEP,
        OTHER,
        int("grid_x", "blocks", "launch grid"),
        int("grid_y", "blocks", "launch grid"),
        int("grid_z", "blocks", "launch grid"),
        int("block_x", "threads", "launch block"),
        int("block_y", "threads", "launch block"),
        int("block_z", "threads", "launch block"),
        int("shared_bytes", "bytes", "dynamic shared memory of the launch"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const OPS: Table = Table {
    name: "ops",
    about: "the operations of this file, numbered",
    columns: &[
        int("op_id", "", "the file's own number of the operation").required(),
        text("op", "", "name as the library exports it").required(),
        text("layer", "", "`cuda`, `hip`, `nccl` or `rdma`").required(),
        text("family", "", "`launch`, `sync`, `copy`, `set`, `alloc`, `free`, `graph`, `event` or `other`")
            .required(),
        int("waits_for_gpu", "", "1 where the call returns only after queued GPU work has finished")
            .required(),
    ],
    key: &["op_id"],
    clustered: false,
    age: None,
    layer: None,
};

/// The numbers of `calls.kept`: the place in this list, plus one.
pub(crate) const KEPT: [Kept; 5] = [Kept::Error, Kept::Slow, Kept::Sample, Kept::Rare, Kept::All];

pub(crate) fn kept_number(kept: Kept) -> i64 {
    match kept {
        Kept::Error => 1,
        Kept::Slow => 2,
        Kept::Sample => 3,
        Kept::Rare => 4,
        Kept::All => 5,
    }
}

const CALL_VIEW: &[Column] = &[
    TIMESTAMP,
    DURATION,
    text("op", "", "the function, as the library exports it"),
    PID,
    TID,
    CGROUP,
    text("stream", "", "stream handle, 0x and hex; NULL for the default stream, or where the call has none"),
    int("bytes", "bytes", "bytes the call was about"),
    int("ret", "", "what the call returned; 0 is success"),
    text("kept", "", "why this row was kept: `error`, `slow`, `sample`, `rare` or `all`"),
    STACK,
    ONCPU,
    RUNQ,
    BLOCKED,
    FUTEX,
    BLOCK_IO,
    FILE,
    SOCKET,
    POLL,
    IOCTL,
    FAULT,
    SLEEP,
    OTHER,
    text("handle", "", "function, pointer or handle the call was about, 0x and hex"),
    text("caller", "", "address the call returned to, 0x and hex"),
    text("via", "", "`runtime` or `direct` into the driver; NULL where unknown"),
    int(
        "sample_weight",
        "calls",
        "N where the row was drawn into the 1-in-N sample and stands for N calls, else 0",
    ),
    int("grid_x", "blocks", "launch grid; NULL where the call launches nothing"),
    int("grid_y", "blocks", "launch grid"),
    int("grid_z", "blocks", "launch grid"),
    int("block_x", "threads", "launch block"),
    int("block_y", "threads", "launch block"),
    int("block_z", "threads", "launch block"),
    int("shared_bytes", "bytes", "dynamic shared memory of the launch"),
    SESSION,
];

pub(crate) const CUDA_EVENTS: View = View {
    name: "cuda_events",
    about: "CUDA runtime, driver and graph calls that were kept in full; the exact sums over all calls are in `call_stats`",
    columns: CALL_VIEW,
    sql: || call_view("cuda"),
};

pub(crate) const HIP_EVENTS: View = View {
    name: "hip_events",
    about: "HIP calls that were kept in full, as `cuda_events`",
    columns: CALL_VIEW,
    sql: || call_view("hip"),
};

pub(crate) const EVENTS: View = View {
    name: "events",
    about: "all events of all layers",
    columns: &[
        TIMESTAMP,
        int("duration_ns", "ns", "how long it took; NULL for what has no duration"),
        text(
            "layer",
            "",
            "`cuda`, `hip`, `nccl`, `sched`, `mem`, `io`, `net`, `tcp`, `rdma`, `gpu`, `process`, ...",
        ),
        text("op", "", "the operation or event"),
        PID,
        TID,
        CGROUP,
        int("rank", "", "rank of the process in its job"),
        text("node", "", "host it happened on"),
        int("bytes", "bytes", "bytes it was about"),
        int("ret", "", "what a call returned"),
        text("kept", "", "why a call was kept"),
        STACK,
        ONCPU,
        RUNQ,
        BLOCKED,
    ],
    sql: events,
};

fn zero_if_null(column: &str) -> String {
    format!("ifnull(c.{column}, 0)")
}

fn hex(column: &str) -> String {
    format!("CASE WHEN c.{column} IS NOT NULL THEN printf('0x%x', c.{column}) END")
}

fn kept_name() -> String {
    let arms: String =
        KEPT.into_iter().map(|kept| format!(" WHEN {} THEN '{}'", kept_number(kept), kept.name())).collect();
    format!("CASE c.kept{arms} END")
}

fn blocked() -> String {
    Reason::ALL.map(|reason| zero_if_null(&format!("{}_ns", reason.name()))).join(" + ")
}

/// One column of a view over `calls c` and `ops o`.
fn call_column(name: &str) -> String {
    match name {
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
        name => format!("c.{name}"),
    }
}

/// `CROSS JOIN` fixes the order: the calls lead, by time, and each looks its operation up.
fn call_view(layer: &str) -> String {
    let columns: Vec<String> =
        CALL_VIEW.iter().map(|column| format!("{} AS {}", call_column(column.name), column.name)).collect();
    format!(
        "SELECT {} FROM calls c CROSS JOIN ops o WHERE o.op_id = c.op_id AND o.layer = '{layer}'",
        columns.join(", ")
    )
}

/// The rank a process had at that time.
fn rank(alias: &str) -> String {
    format!(
        "(SELECT p.rank FROM processes p WHERE p.pid = {alias}.pid AND p.start_ns <= {alias}.timestamp_ns \
         ORDER BY p.start_ns DESC LIMIT 1)"
    )
}

fn node(alias: &str) -> String {
    format!("(SELECT s.host FROM sessions s WHERE s.session_id = {alias}.session_id)")
}

fn events() -> String {
    event_arms().join("\nUNION ALL ")
}

/// The parts of the `events` view, one a table; the first is of the calls.
pub(crate) fn event_arms() -> Vec<String> {
    let mut arms = vec![format!(
        "SELECT {} FROM calls c CROSS JOIN ops o WHERE o.op_id = c.op_id",
        event_columns(&call_column)
    )];
    for table in TABLES {
        let Some(layer) = table.layer else { continue };
        let has = |name: &str| table.columns.iter().any(|column| column.name == name);
        let value = |name: &str| match name {
            "layer" => format!("'{layer}'"),
            "op" if !has("op") => "t.event".into(),
            "rank" if !has("rank") && has("pid") => rank("t"),
            "node" => node("t"),
            name if has(name) => format!("t.{name}"),
            _ => "NULL".into(),
        };
        arms.push(format!("SELECT {} FROM {} t", event_columns(&value), table.name));
    }
    arms
}

/// A column has the same type in every part of the view. Only then does SQLite look through the view, and finds
/// the newest events by the indexes instead of sorting all.
fn event_columns(value: &dyn Fn(&str) -> String) -> String {
    let columns = EVENTS.columns.iter().map(|column| {
        let value = value(column.name);
        let stored = value
            .strip_prefix(['c', 'o', 't'])
            .is_some_and(|rest| rest.starts_with('.') && !rest.contains(' '));
        match stored {
            true => format!("{value} AS {}", column.name),
            false => format!("CAST({value} AS {}) AS {}", column.kind, column.name),
        }
    });
    columns.collect::<Vec<_>>().join(", ")
}
