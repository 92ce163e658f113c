//! The GPU's side: collectives, samples, errors, kernels, graphs and device memory.

use super::{
    BLOCKED, CGROUP, DURATION, ONCPU, PID, RUNQ, SESSION, STACK, TID, TIMESTAMP, Table, int, real, text,
};

pub(crate) const NCCL_EVENTS: Table = Table {
    name: "nccl_events",
    about: "NCCL collectives and point-to-point calls",
    columns: &[
        TIMESTAMP,
        DURATION,
        text(
            "op",
            "",
            "`ALL_REDUCE`, `ALL_GATHER`, `REDUCE_SCATTER`, `BROADCAST`, `REDUCE`, `SEND`, `RECV`, ...",
        )
        .required(),
        PID,
        TID,
        CGROUP,
        int("rank", "", "rank in the communicator"),
        int("nranks", "", "ranks of the communicator"),
        text("comm_id_hash", "", "the communicator, the same on every rank, 0x and hex"),
        int("seq", "", "number of the collective in its communicator"),
        int("count", "elements", "elements"),
        int("bytes", "bytes", "bytes"),
        text("datatype", "", "type of the elements"),
        text("reduce_op", "", "reduction"),
        int("peer", "", "the other rank, or the root"),
        text("stream", "", "stream handle, 0x and hex"),
        text("comm", "", "handle of the communicator in its process, 0x and hex"),
        int("ret", "", "what the call returned"),
        text("kept", "", "why this row was kept"),
        STACK,
        ONCPU,
        RUNQ,
        BLOCKED,
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("nccl"),
};

pub(crate) const GPU_SAMPLES: Table = Table {
    name: "gpu_samples",
    about: "GPU counters, read at intervals",
    columns: &[
        TIMESTAMP,
        int("gpu", "", "number of the GPU").required(),
        text("uuid", "", "its id"),
        real("sm_pct", "%", "time in which kernels ran"),
        real("memory_pct", "%", "time in which memory was read or written"),
        int("memory_used_bytes", "bytes", "device memory in use"),
        int("memory_total_bytes", "bytes", "device memory"),
        int("power_mw", "mW", "power drawn"),
        int("temperature_c", "°C", "temperature"),
        int("sm_clock_mhz", "MHz", "clock of the multiprocessors"),
        int("memory_clock_mhz", "MHz", "clock of the memory"),
        int("pcie_rx_bytes_per_s", "bytes/s", "received over PCIe"),
        int("pcie_tx_bytes_per_s", "bytes/s", "sent over PCIe"),
        text("throttle_reasons", "", "why its clocks are lower than they could be, a JSON list"),
        int("ecc_errors", "", "uncorrected memory errors so far"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const GPU_ERRORS: Table = Table {
    name: "gpu_errors",
    about: "Xid events and other errors a GPU reported",
    columns: &[
        TIMESTAMP,
        text("event", "", "`xid`, `ecc`, `fell_off_bus`, ...").required(),
        int("gpu", "", "number of the GPU"),
        text("uuid", "", "its id"),
        int("code", "", "Xid number"),
        PID,
        text("message", "", "what the driver said"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("gpu"),
};

pub(crate) const KERNELS: Table = Table {
    name: "kernels",
    about: "names of the GPU functions that were launched",
    columns: &[
        PID.required(),
        text("handle", "", "the function, as `cuda_events.handle`, 0x and hex").required(),
        text("name", "", "its name, demangled"),
        text("mangled", "", "its name as compiled"),
        text("module", "", "file or module it came from"),
        int("first_ns", "ns", "when it was first seen"),
        SESSION,
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
        text("graph", "", "handle of the graph, 0x and hex").required(),
        text("exec", "", "handle of its executable, 0x and hex"),
        int("created_ns", "ns", "when its capture began or it was created").required(),
        int("capture_ns", "ns", "how long its capture took"),
        int("instantiate_ns", "ns", "how long making it executable took"),
        int("nodes", "", "nodes in it"),
        int("launches", "", "how often it was launched"),
        int("destroyed_ns", "ns", "when it was destroyed; NULL while it lives"),
        STACK,
        SESSION,
    ],
    key: &["pid", "graph", "created_ns"],
    clustered: true,
    age: Some("destroyed_ns"),
    layer: None,
};

pub(crate) const ALLOCATIONS: Table = Table {
    name: "allocations",
    about: "device memory, live and freed, by call site",
    columns: &[
        PID.required(),
        text("address", "", "where it is, 0x and hex").required(),
        int("bytes", "bytes", "how much").required(),
        int("allocated_ns", "ns", "when it was allocated").required(),
        int("freed_ns", "ns", "when it was freed; NULL while it is live"),
        TID,
        text("op", "", "the call that allocated it"),
        text("kind", "", "`device`, `managed`, `host` or `pool`"),
        int("gpu", "", "number of the GPU"),
        STACK,
        SESSION,
    ],
    key: &["pid", "address", "allocated_ns"],
    clustered: true,
    age: Some("freed_ns"),
    layer: None,
};
