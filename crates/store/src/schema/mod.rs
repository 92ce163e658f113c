//! The schema of a trace file, declared once as data. The DDL, the `schema_doc` table, the insert statements,
//! the `events` view and the documentation page are projections of these tables.

mod call_views;
pub(crate) mod calls;
pub(crate) mod code;
mod ddl;
mod driver;
mod events;
pub(crate) mod gpu;
pub(crate) mod graphs;
pub(crate) mod host;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod merged;
mod migrate;
mod missing;
pub(crate) mod nccl;
mod page;
mod reasons;
pub(crate) mod servers;
pub(crate) mod sums;
pub(crate) mod work;

pub(crate) use call_views::call_view;
pub use ddl::create;
pub(crate) use ddl::{document, fill_buckets};
pub(crate) use events::{event_arms, events_sql};
pub use migrate::migrate;
pub(crate) use missing::{Missing, missing_parts};
pub use page::markdown;

use gpuwhy_model::Reason;

/// `PRAGMA user_version` of the files this program writes.
pub const SCHEMA_VERSION: i64 = 10;

/// `PRAGMA application_id`: `gpwy`. Tells our files from other SQLite files.
pub const APPLICATION_ID: i64 = 0x6770_7779;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub required: bool,
    pub unit: &'static str,
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [Column],
    /// The primary key; one `INTEGER` column of it is the rowid. Empty where rows have no key.
    pub key: &'static [&'static str],
    /// Stored in the order of its key, without a rowid.
    pub clustered: bool,
    /// The column that dates a row: it is indexed, and retention deletes by it.
    pub age: Option<&'static str>,
    /// The layer under which its rows appear in the `events` view, if they do.
    pub layer: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub struct View {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [Column],
    pub sql: fn() -> String,
}

/// An index besides those that every dated table has.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    pub name: &'static str,
    pub table: &'static str,
    pub columns: &'static [&'static str],
}

pub static TABLES: &[Table] = &[
    calls::CALLS,
    calls::OPS,
    calls::LIBRARIES,
    sums::CALL_STATS,
    sums::HIST_BUCKETS,
    sums::BLAME,
    nccl::NCCL_EVENTS,
    kernel::SCHED_EVENTS,
    kernel::MEM_EVENTS,
    kernel::IO_EVENTS,
    kernel::NET_EVENTS,
    kernel::TCP_EVENTS,
    kernel::RDMA_EVENTS,
    gpu::GPU_SAMPLES,
    gpu::GPU_PROCESSES,
    gpu::GPU_ERRORS,
    servers::SERVER_SAMPLES,
    graphs::KERNELS,
    graphs::GRAPHS,
    graphs::GRAPH_NODES,
    memory::ALLOCATIONS,
    memory::MEMORY_STATS,
    memory::MEMORY_FAILURES,
    work::COLDSTART_EVENTS,
    work::GPU_TIME,
    work::COPY_STATS,
    work::CALLS_IN_FLIGHT,
    host::PROCESSES,
    host::THREADS,
    host::PROCESS_EVENTS,
    host::CONTAINERS,
    host::NEIGHBOURS,
    host::MEMORY_PLACES,
    code::STACKS,
    code::WAIT_SAMPLES,
    code::CPU_SAMPLES,
    code::FRAMES,
    code::ANNOTATIONS,
    code::FINDINGS,
    host::SESSIONS,
    merged::MERGED,
    host::PROBES,
    host::WATCH_COSTS,
    host::WATCH_CHANGES,
    host::WATCH_SLICES,
    host::LOSS,
    host::RETENTION,
    SCHEMA_DOC,
];

pub static VIEWS: &[View] = &[
    call_views::CUDA_EVENTS,
    call_views::HIP_EVENTS,
    call_views::DRIVER_EVENTS,
    driver::DRIVER_STATS,
    sums::OP_SUMMARY,
    graphs::GRAPH_KERNELS,
    graphs::GRAPH_LAUNCHES,
    memory::MEMORY_HOLDERS,
    host::NOISE,
    events::EVENTS,
];

pub static INDEXES: &[Index] = &[
    // What an answer's coverage sums up, without reading the histograms beside it.
    Index { name: "call_stats_kept", table: "call_stats", columns: &["window_start_ns", "count", "kept"] },
    // By which a container is known to have a process that runs.
    Index { name: "processes_container", table: "processes", columns: &["container_id", "end_ns"] },
    Index { name: "neighbours_pid", table: "neighbours", columns: &["pid", "first_seen_ns"] },
    Index { name: "threads_tid", table: "threads", columns: &["pid", "tid"] },
    // By which a launch finds its graph, without a look at the graphs themselves.
    Index { name: "graphs_exec", table: "graphs", columns: &["pid", "exec", "created_ns", "destroyed_ns"] },
];

const SCHEMA_DOC: Table = Table {
    name: "schema_doc",
    about: "what every column of every table and view means",
    columns: &[
        text("table_name", "", "the table or view").required(),
        text("column_name", "", "the column").required(),
        text("unit", "", "unit of its numbers; empty where there is none").required(),
        text("about", "", "what it means").required(),
    ],
    key: &["table_name", "column_name"],
    clustered: true,
    age: None,
    layer: None,
};

/// Whether the calls of a file say where their time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Blame,
    /// NULL is then nothing known, not zero.
    None,
}

/// A table by its name; the names used in this crate are all in [`TABLES`].
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

const fn column(kind: &'static str, name: &'static str, unit: &'static str, about: &'static str) -> Column {
    Column { name, kind, required: false, unit, about }
}

const fn int(name: &'static str, unit: &'static str, about: &'static str) -> Column {
    column("INTEGER", name, unit, about)
}

const fn text(name: &'static str, unit: &'static str, about: &'static str) -> Column {
    column("TEXT", name, unit, about)
}

const fn real(name: &'static str, unit: &'static str, about: &'static str) -> Column {
    column("REAL", name, unit, about)
}

impl Table {
    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|own| own.name == column)
    }

    /// The place of a column; a name that does not exist fails to compile where this is used as a constant.
    pub(crate) const fn place(&self, name: &str) -> usize {
        let mut place = 0;
        while place < self.columns.len() {
            if same(self.columns[place].name.as_bytes(), name.as_bytes()) {
                return place;
            }
            place += 1;
        }
        panic!("no such column")
    }

    /// The places of the reasons' columns, in the order of [`Reason::ALL`].
    pub(crate) const fn reasons(&self) -> [usize; Reason::COUNT] {
        let mut places = [0; Reason::COUNT];
        let mut at = 0;
        while at < places.len() {
            places[at] = self.place(Reason::ALL[at].column());
            at += 1;
        }
        places
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Lists of columns, one after the other.
const fn joined<const N: usize>(lists: &[&[Column]]) -> [Column; N] {
    let mut all = [TIMESTAMP; N];
    let (mut at, mut list) = (0, 0);
    while list < lists.len() {
        let mut place = 0;
        while place < lists[list].len() {
            all[at] = lists[list][place];
            at += 1;
            place += 1;
        }
        list += 1;
    }
    all
}

/// The columns of a table of which some come as a list: those of the reasons.
macro_rules! columns {
    ($($list:expr),* $(,)?) => {{
        const LENGTH: usize = 0 $(+ $list.len())*;
        const COLUMNS: [$crate::schema::Column; LENGTH] = $crate::schema::joined(&[$($list),*]);
        &COLUMNS
    }};
}
use columns;

/// The same columns, never NULL.
const fn required<const N: usize>(mut columns: [Column; N]) -> [Column; N] {
    let mut at = 0;
    while at < N {
        columns[at] = columns[at].required();
        at += 1;
    }
    columns
}

impl Column {
    const fn required(self) -> Column {
        Column { required: true, ..self }
    }
}

// Columns that many tables share, so that they mean the same everywhere.
const TIMESTAMP: Column = int("timestamp_ns", "ns", "when it began, unix time").required();
const DURATION: Column = int("duration_ns", "ns", "how long it took");
const PID: Column = int("pid", "", "process");
const TID: Column = int("tid", "", "thread");
const CGROUP: Column = int("cgroup_id", "", "cgroup of the thread, as the kernel numbers them");
const SESSION: Column = int("session_id", "", "the session that recorded it; names the node");
const STACK: Column = int("stack_id", "", "the caller's stack, see `stacks` and `frames`");
const BY_PID: Column = int("by_pid", "", "process behind it; NULL where nobody could be named");
const BY_TID: Column = int("by_tid", "", "thread behind it");
const BY_COMM: Column = text("by_comm", "", "name of the thread behind it");
const ONCPU: Column = int("oncpu_ns", "ns", "of the duration: on the CPU");
const RUNQ: Column = int("runq_ns", "ns", "of the duration: runnable, but something else had the CPU");
const BLOCKED: Column = int(
    "blocked_ns",
    "ns",
    "of the duration: blocked, or held up by the kernel; the sum of all reasons (`futex_ns` and the like)",
);
const BY_CGROUP: Column = int("by_cgroup_id", "", "cgroup of the thread behind it");
