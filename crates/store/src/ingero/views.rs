//! Our tables as views over Ingero's: which of its columns is which of ours. What is not named here is NULL.

use super::kinds::{self, CALLS, KINDS, Kind, OPS_A_SOURCE, SCHED_SWITCH};
use super::shape::Shape;
use super::sums;
use crate::schema::{Column, Table};

/// Which value of a row a column of ours is.
type Value<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// The select that stands for a table; nothing for one that Ingero has nothing for, or that is filled otherwise.
pub(super) fn of(table: &Table, shape: &Shape) -> Option<String> {
    let (column, from): (Value<'_>, String) = match table.name {
        "calls" => (Box::new(|name| call(shape, name)), calls_from()),
        "call_stats" => (Box::new(|name| sums::column(shape, name)), sums::from(shape)),
        "sched_events" | "mem_events" | "io_events" | "net_events" | "tcp_events" | "process_events" => {
            let kinds: Vec<(&Kind, &str)> = kinds::of_table(table.name).collect();
            let from = format!("main.events e WHERE {}", any_of(&kinds));
            (Box::new(move |name| event(shape, table.name, &kinds, name)), from)
        }
        "annotations" if shape.has("annotations", "span_start") => {
            (Box::new(|name| annotation(shape, name)), "main.annotations e".into())
        }
        "sessions" if !shape.sessions.is_empty() => {
            (Box::new(|name| session(shape, name)), "main.sessions s".into())
        }
        "stacks" if shape.has("stack_traces", "ips") => (Box::new(stack), "main.stack_traces s".into()),
        "frames" if shape.has("stack_traces", "ips") => (Box::new(frame), frames_from(shape)),
        "containers" if shape.has("cgroup_metadata", "container_id") => (
            Box::new(|name| container(shape, name)),
            "main.cgroup_metadata c WHERE c.container_id <> '' GROUP BY c.container_id".into(),
        ),
        _ => return None,
    };
    let columns: Vec<String> = table.columns.iter().map(|own| named(own, column(own.name))).collect();
    Some(format!("SELECT {} FROM {from}", columns.join(", ")))
}

fn named(column: &Column, value: Option<String>) -> String {
    match value {
        Some(value) => format!("{value} AS {}", column.name),
        None => format!("CAST(NULL AS {}) AS {}", column.kind, column.name),
    }
}

/// The plus keeps the index by source out of it: calls are asked for by time, and most rows are calls.
pub(super) fn calls_from() -> String {
    format!("main.events e WHERE {}", is_call())
}

fn is_call() -> String {
    format!("+e.source IN ({})", CALLS.map(|source| source.to_string()).join(", "))
}

pub(super) fn op_id() -> String {
    format!("e.source * {OPS_A_SOURCE} + e.op")
}

pub(super) fn call(shape: &Shape, name: &str) -> Option<String> {
    match name {
        "timestamp_ns" => Some("e.timestamp".into()),
        "op_id" => Some(op_id()),
        "ret" => shape.has("events", "ret_code").then(|| "e.ret_code".into()),
        "bytes" => by_kind(|function| function.bytes),
        "handle" => by_kind(|function| function.handle),
        "direction" => Some(direction()),
        name => common(shape, name),
    }
}

/// An argument, in calls of those functions that have it there.
fn by_kind(column: impl Fn(&kinds::Function) -> Option<&'static str>) -> Option<String> {
    let mut sql = String::from("CASE");
    for kind in KINDS {
        if let Some(argument) = kind.call().and_then(|(_, function)| column(&function)) {
            sql += &format!(" WHEN {} THEN e.{argument}", is(kind));
        }
    }
    Some(sql + " END")
}

/// A cudaMemcpyKind as our number. Its zero is from host to host, but also what was not read.
fn direction() -> String {
    let copies: Vec<String> = KINDS
        .iter()
        .filter(|kind| kind.call().is_some_and(|(_, function)| function.has_direction))
        .map(is)
        .collect();
    format!("CASE WHEN {} THEN iif(e.arg1 BETWEEN 1 AND 3, e.arg1 + 1, 6) END", copies.join(" OR "))
}

fn is(kind: &Kind) -> String {
    format!("e.source = {} AND e.op = {}", kind.source, kind.op)
}

/// All kinds of a table are of one source, whose index then finds them.
fn any_of(kinds: &[(&Kind, &str)]) -> String {
    let source = kinds.first().map_or(0, |(kind, _)| kind.source);
    let ops: Vec<String> = kinds.iter().map(|(kind, _)| kind.op.to_string()).collect();
    format!("e.source = {source} AND e.op IN ({})", ops.join(", "))
}

/// What calls and events have alike.
fn common(shape: &Shape, name: &str) -> Option<String> {
    match name {
        "duration_ns" => Some("e.duration".into()),
        "pid" | "tid" => Some(format!("e.{name}")),
        // 1 is the root, which Ingero itself takes for none.
        "cgroup_id" => shape
            .has("events", "cgroup_id")
            .then(|| "CASE WHEN e.cgroup_id NOT IN (0, 1) THEN e.cgroup_id END".into()),
        "stack_id" => shape.has("events", "stack_hash").then(|| "nullif(e.stack_hash, 0)".into()),
        "session_id" => session_of(shape),
        _ => None,
    }
}

/// Rows do not say which session they are of: it is the last that had begun on their node, or the first of all, as
/// probes fire before a session is written down.
fn session_of(shape: &Shape) -> Option<String> {
    match shape.sessions[..] {
        [] => None,
        [only] => Some(only.to_string()),
        _ => {
            let node = match shape.has("events", "node") && shape.has("sessions", "node") {
                true => "(e.node IN (s.node, '') OR s.node = '')",
                false => "true",
            };
            let best = "ORDER BY s.started_at <= e.timestamp DESC, abs(s.started_at - e.timestamp) LIMIT 1";
            Some(format!("(SELECT s.id FROM main.sessions s WHERE {node} {best})"))
        }
    }
}

fn event(shape: &Shape, table: &str, kinds: &[(&Kind, &str)], name: &str) -> Option<String> {
    let switch = format!("e.op = {}", SCHED_SWITCH.1);
    match (table, name) {
        (_, "timestamp_ns") => {
            let ends = kinds.first().is_some_and(|(kind, _)| kinds::stamped_at_end(kind.source));
            Some(if ends { "e.timestamp - e.duration" } else { "e.timestamp" }.into())
        }
        (_, "event") => {
            let arms: String =
                kinds.iter().map(|(kind, event)| format!(" WHEN {} THEN '{event}'", kind.op)).collect();
            Some(format!("CASE e.op{arms} END"))
        }
        // The row of a wakeup has the waker where others have the thread it is about, of which it has only the number.
        ("sched_events", "pid") => Some(format!("iif({switch}, e.pid, NULL)")),
        ("sched_events", "tid") => Some(format!("iif({switch}, e.tid, e.arg1)")),
        ("sched_events", "duration_ns") => Some(format!("iif({switch}, e.duration, NULL)")),
        ("sched_events", "by_pid") => Some(format!("iif({switch}, NULL, e.pid)")),
        ("sched_events", "by_tid") => Some(format!("iif({switch}, NULL, e.tid)")),
        // Of the task that left the CPU, not of the one the row is about.
        ("sched_events", "cgroup_id") => None,
        // The same with who called the killer, and whom it killed.
        ("mem_events", "pid") => Some("iif(e.op = 4 AND e.arg1 <> 0, e.arg1, e.pid)".into()),
        ("mem_events", "duration_ns") => None,
        ("mem_events", "tid") => Some("iif(e.op = 4, NULL, e.tid)".into()),
        ("mem_events", "by_pid") => Some("iif(e.op = 4 AND e.arg1 <> 0, e.pid, NULL)".into()),
        ("mem_events", "bytes") => Some("iif(e.op = 3, e.arg0, NULL)".into()),
        ("process_events", "child") => Some("iif(e.op = 7, e.arg1, NULL)".into()),
        ("process_events", "comm") => shape.has("events", "comm").then(|| "nullif(e.comm, '')".into()),
        ("io_events", "bytes") => Some("e.arg0 * 512".into()),
        ("io_events", "sector") => Some("e.arg1".into()),
        ("io_events", "rw") => {
            Some("CASE e.op WHEN 1 THEN 'read' WHEN 2 THEN 'write' ELSE 'discard' END".into())
        }
        ("net_events", "fd") => Some("e.arg0".into()),
        ("net_events", "bytes") => Some("e.arg1".into()),
        // They are sent from interrupts: whoever is current then is a bystander.
        ("tcp_events", "pid" | "tid" | "cgroup_id" | "duration_ns") => None,
        ("tcp_events", "saddr") => Some(address("(e.arg0 >> 32)")),
        ("tcp_events", "daddr") => Some(address("e.arg0")),
        ("tcp_events", "sport") => Some("(e.arg1 >> 16) & 65535".into()),
        ("tcp_events", "dport") => Some("e.arg1 & 65535".into()),
        ("tcp_events", "rank") => None,
        (_, name) => common(shape, name),
    }
}

/// The low 32 bits as an IPv4 address, which lies there as it goes over the wire; zero is what IPv6 leaves.
fn address(value: &str) -> String {
    let octet = |shift: u32| format!("({value} >> {shift}) & 255");
    format!(
        "CASE WHEN {value} & 4294967295 <> 0 THEN printf('%d.%d.%d.%d', {}, {}, {}, {}) END",
        octet(0),
        octet(8),
        octet(16),
        octet(24)
    )
}

fn annotation(shape: &Shape, name: &str) -> Option<String> {
    let label = |column: &str| Some(format!("(SELECT j.{column} FROM json_each(e.labels) j LIMIT 1)"));
    match name {
        "timestamp_ns" => Some("iif(e.span_start > 0, e.span_start, e.timestamp)".into()),
        "duration_ns" => Some("iif(e.span_start > 0, e.span_end - e.span_start, NULL)".into()),
        "event" => label("key"),
        "value" => label("value"),
        "labels" => Some("e.labels".into()),
        "pid" => Some("nullif(e.pid, 0)".into()),
        // Annotations have no node to tell a session by.
        "session_id" if shape.sessions.len() == 1 => session_of(shape),
        _ => None,
    }
}

fn session(shape: &Shape, name: &str) -> Option<String> {
    let own = |column: &str| shape.has("sessions", column).then(|| format!("nullif(s.{column}, '')"));
    match name {
        "session_id" => Some("s.id".into()),
        "start_ns" => Some("s.started_at".into()),
        "end_ns" => shape.has("sessions", "stopped_at").then(|| "nullif(s.stopped_at, 0)".into()),
        "host" => own("node"),
        "kernel" => own("kernel"),
        "gpus" => {
            own("gpu_model").map(|gpu| format!("CASE WHEN {gpu} IS NOT NULL THEN json_array({gpu}) END"))
        }
        "driver" => own("gpu_driver"),
        "version" => own("ingero_ver").map(|version| format!("'Ingero ' || {version}")),
        // A list, separated by commas.
        "flags" => {
            own("flags").map(|flags| format!("'[' || replace(json_quote({flags}), ',', '\",\"') || ']'"))
        }
        _ => None,
    }
}

fn stack(name: &str) -> Option<String> {
    match name {
        "stack_id" => Some("s.hash".into()),
        "addresses" => Some("nullif(s.ips, '')".into()),
        _ => None,
    }
}

/// A frame is an object where names were found, else an address.
fn frames_from(shape: &Shape) -> String {
    let list = |column: &str| format!("WHEN s.{column} <> '' AND json_valid(s.{column}) THEN s.{column}");
    let named = if shape.has("stack_traces", "frames") { list("frames") } else { String::new() };
    format!("main.stack_traces s, json_each(CASE {named} {} ELSE '[]' END) j", list("ips"))
}

fn frame(name: &str) -> Option<String> {
    let part = |part: &str| format!("iif(j.type = 'object', json_extract(j.value, '$.{part}'), NULL)");
    let python = format!("{} IS NOT NULL", part("pfn"));
    match name {
        "stack_id" => Some("s.hash".into()),
        "depth" => Some("j.key".into()),
        "kind" => Some(format!("iif({python}, 'python', 'native')")),
        // Native names end in an offset.
        "function" => Some(format!(
            "coalesce({}, iif(instr({symbol}, '+0x') > 1, substr({symbol}, 1, instr({symbol}, '+0x') - 1), {symbol}))",
            part("pfn"),
            symbol = part("s")
        )),
        "file" => Some(format!("iif({python}, {}, NULL)", part("pf"))),
        // The line of a Python frame is where its function begins, not where it was.
        "line" => Some(format!("iif({python}, NULL, {})", part("l"))),
        "module" => Some(format!("iif({python}, NULL, {})", part("f"))),
        "address" => Some(format!("iif(j.type = 'text', j.value, {})", part("i"))),
        _ => None,
    }
}

fn container(shape: &Shape, name: &str) -> Option<String> {
    let own = |column: &str| shape.has("cgroup_metadata", column).then(|| format!("nullif(c.{column}, '')"));
    match name {
        "container_id" => Some("c.container_id".into()),
        "pod" => own("pod_name"),
        "namespace" => own("namespace"),
        "cgroup_id" => Some("c.cgroup_id".into()),
        "cgroup" => own("cgroup_path"),
        _ => None,
    }
}

/// When the first row began, and the last. Rows lie in order of other times than that for some kinds, so the first and
/// the last thousand are looked at.
pub(super) fn ends() -> String {
    let start = format!("iif({}, e.timestamp, e.timestamp - e.duration)", is_call());
    let end = |which: &str, order: &str| {
        format!(
            "(SELECT {which}({start}) FROM (SELECT * FROM main.events ORDER BY timestamp {order} LIMIT 1000) e)"
        )
    };
    format!("SELECT {}, {}", end("min", "ASC"), end("max", "DESC"))
}

/// Calls with the node they were made on, which our table of calls has no column for.
pub(super) fn calls(shape: &Shape) -> String {
    format!(
        "SELECT o.op AS op, e.pid AS pid, e.tid AS tid, {} AS node, e.timestamp AS timestamp_ns, e.duration AS duration_ns \
         FROM main.events e CROSS JOIN ops o WHERE {} AND o.op_id = {}",
        node(shape),
        is_call(),
        op_id()
    )
}

/// When threads were off the CPU.
pub(super) fn waits(shape: &Shape) -> String {
    let (source, op) = SCHED_SWITCH;
    format!(
        "SELECT {}, e.tid, e.timestamp - e.duration, e.duration FROM main.events e WHERE e.source = {source} AND e.op = {op}",
        node(shape)
    )
}

fn node(shape: &Shape) -> &'static str {
    if shape.has("events", "node") { "e.node" } else { "''" }
}
