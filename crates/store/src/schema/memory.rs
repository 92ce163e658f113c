//! Device memory: who holds it, how much there was over time, and who got none.

use super::{Column, PID, SESSION, STACK, TID, TIMESTAMP, Table, View, int, text};

pub(crate) const ALLOCATIONS: Table = Table {
    name: "allocations",
    about: "device memory, live and freed, by call site",
    columns: &[
        PID.required(),
        text("address", "", "where it is, or the handle of physical memory, 0x and hex").required(),
        int("bytes", "bytes", "how much").required(),
        int("allocated_ns", "ns", "when it was allocated").required(),
        int("freed_ns", "ns", "when it was freed; NULL while it is live"),
        TID,
        text("op", "", "the call that allocated it"),
        KIND,
        GPU,
        STACK,
        SESSION,
        POOL,
    ],
    key: &["pid", "address", "allocated_ns"],
    clustered: true,
    age: Some("freed_ns"),
    layer: None,
};

const KIND: Column = text("kind", "", "`device`, `managed`, `host` (pinned) or `registered` (pinned later)");
const GPU: Column = int("gpu", "", "device, as its process counts them; NULL where unknown");
const POOL: Column = text(
    "pool",
    "",
    "handle of its memory pool, 0x and hex, or `graph:` and the graph it was captured into; NULL for none",
);

pub(crate) const MEMORY_HOLDERS: View = View {
    name: "memory_holders",
    about: "live memory by process and call site",
    columns: &[
        PID,
        GPU,
        KIND,
        POOL,
        STACK,
        int("bytes", "bytes", "how much is live"),
        int("count", "", "in how many pieces"),
        int("oldest_ns", "ns", "when the oldest of them was allocated"),
        int("newest_ns", "ns", "when the newest of them was allocated"),
    ],
    sql: || {
        "SELECT a.pid AS pid, a.gpu AS gpu, a.kind AS kind, a.pool AS pool, a.stack_id AS stack_id, sum(a.bytes) AS bytes, \
         count(*) AS count, min(a.allocated_ns) AS oldest_ns, max(a.allocated_ns) AS newest_ns FROM allocations a \
         WHERE a.freed_ns IS NULL GROUP BY a.pid, a.gpu, a.kind, a.pool, a.stack_id"
            .into()
    },
};

pub(crate) const MEMORY_STATS: Table = Table {
    name: "memory_stats",
    about: "a process's memory of one kind on one GPU over time; a row only where it had changed",
    columns: &[
        TIMESTAMP,
        PID.required(),
        GPU,
        KIND.required(),
        int("live_bytes", "bytes", "allocated and not freed").required(),
        int("peak_bytes", "bytes", "the most there was so far").required(),
        int("live_count", "", "in how many pieces").required(),
        int("allocated_bytes", "bytes", "all that was ever allocated in this trace").required(),
        int("freed_bytes", "bytes", "all that was ever freed in this trace").required(),
        int("failures", "calls", "allocations that failed so far").required(),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const MEMORY_FAILURES: Table = Table {
    name: "memory_failures",
    about: "allocations that failed, and who held the memory then",
    columns: &[
        TIMESTAMP,
        text("event", "", "`alloc_failed`").required(),
        text("op", "", "the call that failed"),
        PID,
        TID,
        int("bytes", "bytes", "how much was asked for"),
        int("ret", "", "what the call returned"),
        GPU,
        STACK,
        int("live_bytes", "bytes", "live device and managed memory of all traced processes"),
        text(
            "holders",
            "",
            "who held it, by call site, most first: a JSON list of pid, stack_id, bytes and count",
        ),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("memory"),
};
