//! Collectives: every call of the collective library, and when its work was known to be done.

use super::{
    BLOCKED, CGROUP, Column, DURATION, ONCPU, PID, RUNQ, SESSION, STACK, TID, TIMESTAMP, Table, columns, int,
    reasons, text,
};

const OP: Column = text(
    "op",
    "",
    "`ALL_REDUCE`, `ALL_GATHER`, `REDUCE_SCATTER`, `BROADCAST`, `REDUCE`, `SEND`, `RECV`, ...",
)
.required();

pub(crate) const NCCL_EVENTS: Table = Table {
    name: "nccl_events",
    about: "NCCL collectives and point-to-point calls",
    columns: columns![
        &[
            TIMESTAMP,
            DURATION,
            OP,
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
            text(
                "stream",
                "",
                "stream handle, 0x and hex; NULL for the default stream, or where the call has none",
            ),
            text("comm", "", "handle of the communicator in its process, 0x and hex"),
            int("ret", "", "what the call returned"),
            text("kept", "", "why this row was kept"),
            STACK,
            ONCPU,
            RUNQ,
            BLOCKED,
            SESSION,
            text("function", "", "the function, as the library exports it: `ncclAllReduce`"),
            int("grouped", "", "1 between group start and group end: the work began at the group's end"),
            int(
                "wait_ns",
                "ns",
                "how long the host waited in the call that told it was done; NULL where nobody asked",
            ),
            int("completed_ns", "ns", "when the host knew it was done, unix time"),
            text("waited_in", "", "the call that told, such as `cudaStreamSynchronize`"),
        ],
        &reasons::FIRST,
        &[
            int("sample_weight", "calls", "N where the row was drawn into the 1-in-N sample, else 0"),
            text("caller", "", "address the call returned to, 0x and hex"),
            int(
                "gpu",
                "",
                "device the thread had chosen, as its process counts them; NULL where that was not seen",
            ),
            int("library_id", "", "the file the function is in, see `libraries`"),
        ],
        &reasons::LATER,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("nccl"),
};
