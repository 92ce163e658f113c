//! Kept calls, stored narrow: `calls`, and the operations and library files it has numbers of.

use super::{
    CGROUP, Column, DURATION, ONCPU, PID, RUNQ, SESSION, STACK, TID, TIMESTAMP, Table, columns, int, reasons,
    text,
};
use gpuwhy_model::{Direction, Kept};

/// Integers only, NULL for zero, one index: this table decides how fast a trace can be written.
pub(crate) const CALLS: Table = Table {
    name: "calls",
    about: "every call that was kept in full, as stored; read `cuda_events`, `hip_events` or `driver_events` instead. \
            NULL is zero, or nothing",
    columns: columns![
        &[
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
        ],
        &reasons::FIRST,
        &[
            int("grid_x", "blocks", "launch grid"),
            int("grid_y", "blocks", "launch grid"),
            int("grid_z", "blocks", "launch grid"),
            int("block_x", "threads", "launch block"),
            int("block_y", "threads", "launch block"),
            int("block_z", "threads", "launch block"),
            int("shared_bytes", "bytes", "dynamic shared memory of the launch"),
            SESSION,
            int("library_id", "", "the file the function is in, see `libraries`"),
            int(
                "device",
                "",
                "device the thread had chosen, as its process counts them; NULL where that was not seen",
            ),
            int(
                "direction",
                "",
                "of a copy: 1 host to host, 2 host to device, 3 device to host, 4 device to device, 5 peer, 6 unknown",
            ),
            int("aux", "", "a second handle, see `ops.role`"),
            int("first", "", "1 for the first launch of a function by its process"),
        ],
        &reasons::LATER,
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
        text("layer", "", "`cuda`, `hip`, `nccl`, `rdma` or `driver`").required(),
        text(
            "family",
            "",
            "`launch`, `sync`, `copy`, `set`, `alloc`, `free`, `graph`, `event`, `load`, `collective`, \
            `ioctl` or `other`",
        )
        .required(),
        int("waits_for_gpu", "", "1 where the call returns only after queued GPU work has finished")
            .required(),
        text(
            "role",
            "",
            "what it does to streams, kernels, graphs and memory, such as `graph_launch`; NULL for nothing",
        ),
    ],
    key: &["op_id"],
    clustered: false,
    age: None,
    layer: None,
};

pub(crate) const LIBRARIES: Table = Table {
    name: "libraries",
    about: "the library files whose functions were probed, numbered",
    columns: &[
        int("library_id", "", "the file's own number of the library").required(),
        text("kind", "", "`libcuda`, `libcudart`, `libnccl`, `libamdhip64` or `libibverbs`").required(),
        text("file", "", "as the process that maps it sees it").required(),
        int("session_id", "", "the session that met it first"),
    ],
    key: &["library_id"],
    clustered: false,
    age: None,
    layer: None,
};

/// The numbers of `calls.kept`: the place in this list, plus one.
pub(crate) const KEPT: [Kept; 5] = [Kept::Error, Kept::Slow, Kept::Sample, Kept::Rare, Kept::All];

/// Nothing for a call that is no row of its own.
pub(crate) fn kept_number(kept: Kept) -> Option<i64> {
    match kept {
        Kept::Error => Some(1),
        Kept::Slow => Some(2),
        Kept::Sample => Some(3),
        Kept::Rare => Some(4),
        Kept::All => Some(5),
        Kept::State => None,
    }
}

/// The numbers of `calls.direction`: the place in [`Direction::ALL`], plus one.
pub(crate) fn direction_number(direction: Direction) -> i64 {
    direction as i64 + 1
}
