//! The `events` view: all events of all layers, whichever table they are in.

use super::call_views::call_column;
use super::host::{node, rank};
use super::{
    BLOCKED, CGROUP, Clock, ONCPU, PID, RUNQ, STACK, TABLES, TID, TIMESTAMP, Table, View, int, text,
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
            "`cuda`, `hip`, `driver`, `nccl`, `sched`, `mem`, `io`, `net`, `tcp`, `rdma`, `gpu`, `memory`, `coldstart`, \
             `process`, ...",
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
    sql: || events_sql(Clock::Blame),
};

pub(crate) fn events_sql(clock: Clock) -> String {
    event_arms(clock).into_iter().map(|arm| arm.sql).collect::<Vec<_>>().join("\nUNION ALL ")
}

/// The part of the view that is of one table.
#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) table: &'static str,
    /// Of a table other than `calls` it can be followed by a condition on `t`.
    pub(crate) sql: String,
}

/// The calls first.
pub(crate) fn event_arms(clock: Clock) -> Vec<Arm> {
    let calls = format!(
        "SELECT {} FROM calls c CROSS JOIN ops o WHERE o.op_id = c.op_id",
        event_columns(&|name| call_column(name, clock))
    );
    let others = TABLES.iter().filter_map(|table| {
        let layer = table.layer?;
        let columns = event_columns(&|name| table_column(table, layer, name));
        Some(Arm { table: table.name, sql: format!("SELECT {columns} FROM {} t", table.name) })
    });
    std::iter::once(Arm { table: "calls", sql: calls }).chain(others).collect()
}

/// An event goes by its own name; the operation it happened in is in its table.
fn table_column(table: &Table, layer: &str, name: &str) -> String {
    match name {
        "layer" => format!("'{layer}'"),
        "op" if table.has("event") => "t.event".into(),
        "rank" if !table.has("rank") && table.has("pid") => rank("t"),
        "node" => node("t"),
        name if table.has(name) => format!("t.{name}"),
        _ => "NULL".into(),
    }
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
