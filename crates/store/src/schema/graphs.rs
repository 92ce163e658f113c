//! Kernels and graphs: what is launched, and what a graph launch stands for.

use super::{Column, DURATION, PID, SESSION, STACK, TID, TIMESTAMP, Table, View, int, text};

pub(crate) const KERNELS: Table = Table {
    name: "kernels",
    about: "the GPU functions that were launched, by name",
    columns: &[
        PID.required(),
        text("handle", "", "the function, as `cuda_events.handle`, 0x and hex").required(),
        text("name", "", "its name, demangled; NULL where nobody has told"),
        text("mangled", "", "its name as compiled"),
        text("module", "", "file or module it came from"),
        int("first_ns", "ns", "when it was first seen"),
        SESSION,
        int(
            "launches",
            "calls",
            "how often it was launched, kept or not; launches of graphs are in `graph_kernels`",
        ),
        int("launch_ns", "ns", "the host's time in those launches"),
        int("last_ns", "ns", "when its launches were last seen to have risen"),
    ],
    key: &["pid", "handle"],
    clustered: true,
    age: None,
    layer: None,
};

pub(crate) const GRAPHS: Table = Table {
    name: "graphs",
    about: "graphs: captured, instantiated, launched, destroyed",
    columns: &[
        PID.required(),
        text("graph", "", "handle of the graph, 0x and hex; 0x0 where it was made before the trace")
            .required(),
        text("exec", "", "handle of its executable, 0x and hex"),
        int("created_ns", "ns", "when its capture began or it was created").required(),
        int("capture_ns", "ns", "how long its capture took"),
        int("instantiate_ns", "ns", "how long making it executable took"),
        int("nodes", "", "nodes in it; NULL where it was made before the trace"),
        int("launches", "calls", "how often it was launched"),
        int(
            "destroyed_ns",
            "ns",
            "when it, or its executable once it has one, was destroyed; NULL while it lives",
        ),
        STACK,
        SESSION,
        int("kernels", "", "nodes in it that run a kernel"),
        int("updates", "", "how often its executable was updated"),
        int("launch_ns", "ns", "the host's time in its launches"),
    ],
    key: &["pid", "graph", "created_ns"],
    clustered: true,
    age: Some("destroyed_ns"),
    layer: None,
};

pub(crate) const GRAPH_NODES: Table = Table {
    name: "graph_nodes",
    about: "what the graphs are made of; what is in a graph inside a graph follows behind it",
    columns: &[
        PID.required(),
        text("graph", "", "handle of the graph, 0x and hex").required(),
        int("created_ns", "ns", "when the graph was created, see `graphs`").required(),
        int("node", "", "number of the node, from 0, in the order of capture").required(),
        text("kind", "", "`kernel`, `copy`, `set`, `host`, `graph` or `collective`").required(),
        text("op", "", "the call that made it"),
        text("handle", "", "function of a kernel, see `kernels`, or a child graph, 0x and hex"),
        int("bytes", "bytes", "bytes of a copy or a memset"),
        text("direction", "", "of a copy, as in `cuda_events`"),
        STACK,
        int("replaced", "", "1 where an update has replaced it since"),
        SESSION,
    ],
    key: &["pid", "graph", "created_ns", "node"],
    clustered: true,
    age: None,
    layer: None,
};

const KERNEL: Column = text("kernel", "", "name of the kernel; NULL where unknown");

pub(crate) const GRAPH_KERNELS: View = View {
    name: "graph_kernels",
    about: "the kernels in each graph, those of graphs inside it included, as it is after its last update",
    columns: &[
        PID,
        text("exec", "", "handle of the executable, 0x and hex"),
        text("graph", "", "handle of the graph, 0x and hex"),
        int("created_ns", "ns", "when the graph was created"),
        text("handle", "", "the function, 0x and hex"),
        KERNEL,
        int("nodes", "", "nodes that run it"),
        int("launches", "calls", "how often it ran in launches of the graph: those times its nodes"),
        SESSION,
    ],
    sql: || {
        "SELECT g.pid AS pid, g.exec AS exec, g.graph AS graph, g.created_ns AS created_ns, n.handle AS handle, \
         (SELECT k.name FROM kernels k WHERE k.pid = n.pid AND k.handle = n.handle) AS kernel, count(*) AS nodes, \
         ifnull(g.launches, 0) * count(*) AS launches, g.session_id AS session_id FROM graphs g CROSS JOIN graph_nodes n \
         WHERE n.pid = g.pid AND n.graph = g.graph AND n.created_ns = g.created_ns AND n.kind = 'kernel' \
         AND ifnull(n.replaced, 0) = 0 GROUP BY g.pid, g.graph, g.created_ns, n.handle"
            .into()
    },
};

pub(crate) const GRAPH_LAUNCHES: View = View {
    name: "graph_launches",
    about: "every kept launch of a graph, with a row for each node of the graph, as it is after its last update",
    columns: &[
        TIMESTAMP,
        DURATION,
        text("op", "", "the call that launched the graph"),
        PID,
        TID,
        text("stream", "", "stream handle, 0x and hex; NULL for the default stream"),
        text("exec", "", "handle of the executable, 0x and hex"),
        text("graph", "", "handle of the graph, 0x and hex"),
        int("created_ns", "ns", "when the graph was created"),
        int("node", "", "number of the node"),
        text("kind", "", "`kernel`, `copy`, `set`, `host`, `graph` or `collective`"),
        text("node_op", "", "the call that made the node"),
        text("handle", "", "function of a kernel, or a child graph, 0x and hex"),
        KERNEL,
        int("bytes", "bytes", "bytes of a copy or a memset"),
        text("direction", "", "of a copy, as in `cuda_events`"),
        int("stack_id", "", "the stack of the call that made the node, see `frames`"),
        SESSION,
    ],
    sql: graph_launches,
};

/// The launches lead, by time. Handles are used again: of the graphs that live then and ever had this executable, it
/// is the newest.
fn graph_launches() -> String {
    "SELECT c.timestamp_ns AS timestamp_ns, ifnull(c.duration_ns, 0) AS duration_ns, o.op AS op, c.pid AS pid, \
     c.tid AS tid, CASE WHEN c.stream IS NOT NULL THEN printf('0x%x', c.stream) END AS stream, g.exec AS exec, \
     g.graph AS graph, g.created_ns AS created_ns, n.node AS node, n.kind AS kind, n.op AS node_op, \
     n.handle AS handle, \
     CASE n.kind WHEN 'kernel' THEN (SELECT k.name FROM kernels k WHERE k.pid = n.pid AND k.handle = n.handle) END \
     AS kernel, n.bytes AS bytes, n.direction AS direction, n.stack_id AS stack_id, c.session_id AS session_id \
     FROM calls c CROSS JOIN ops o CROSS JOIN graphs g CROSS JOIN graph_nodes n \
     WHERE o.op_id = c.op_id AND o.role = 'graph_launch' AND g.pid = c.pid AND g.exec = printf('0x%x', c.handle) \
     AND g.created_ns = (SELECT max(x.created_ns) FROM graphs x WHERE x.pid = c.pid \
     AND x.exec = printf('0x%x', c.handle) AND x.created_ns <= c.timestamp_ns \
     AND (x.destroyed_ns IS NULL OR x.destroyed_ns >= c.timestamp_ns)) \
     AND n.pid = g.pid AND n.graph = g.graph AND n.created_ns = g.created_ns AND ifnull(n.replaced, 0) = 0"
        .into()
}
