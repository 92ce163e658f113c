//! What streams, copies and first calls cost, and which calls have not returned.

use super::{CGROUP, DURATION, PID, SESSION, STACK, TID, TIMESTAMP, Table, int, text};

pub(crate) const COLDSTART_EVENTS: Table = Table {
    name: "coldstart_events",
    about: "what happens once and makes first calls slow: contexts, modules, compilation, first launches",
    columns: &[
        TIMESTAMP,
        DURATION,
        text("event", "", "`context`, `module_load`, `jit`, `lazy_load` or `first_launch`").required(),
        text("op", "", "the call it happened in"),
        PID,
        TID,
        CGROUP,
        text("name", "", "the kernel's or the module's name; NULL where unknown"),
        int("bytes", "bytes", "bytes the call was about"),
        int("ret", "", "what the call returned; 0 is success"),
        STACK,
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("coldstart"),
};

pub(crate) const GPU_TIME: Table = Table {
    name: "gpu_time",
    about: "how long a stream was busy in a window, between two bounds",
    columns: &[
        int("window_start_ns", "ns", "when the window began, unix time").required(),
        int("window_ns", "ns", "how long the window was").required(),
        PID.required(),
        text("stream", "", "stream handle, 0x and hex; NULL for the default stream"),
        int("stream_tid", "", "the thread whose default stream it is, where each thread has its own"),
        int("submitted", "", "pieces of work submitted to it").required(),
        int("launches", "calls", "of them launches").required(),
        int("launch_ns", "ns", "the host's time in those launches").required(),
        int("busy_lower_ns", "ns", "it was busy at least so long: somebody waited for it").required(),
        int(
            "busy_upper_ns",
            "ns",
            "it was busy at most so long: from work submitted until all was known to be done",
        )
        .required(),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("window_start_ns"),
    layer: None,
};

pub(crate) const COPY_STATS: Table = Table {
    name: "copy_stats",
    about: "all copies of a process in one direction in one window: exact, kept or not",
    columns: &[
        int("window_start_ns", "ns", "when the window began, unix time").required(),
        int("window_ns", "ns", "how long the window was").required(),
        PID.required(),
        CGROUP,
        text("direction", "", "as in `cuda_events`").required(),
        int("count", "calls", "copies").required(),
        int("bytes", "bytes", "bytes they moved").required(),
        int("sum_ns", "ns", "the host's time in the calls; an asynchronous copy takes longer than its call")
            .required(),
        int("errors", "calls", "how many returned an error").required(),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("window_start_ns"),
    layer: None,
};

pub(crate) const CALLS_IN_FLIGHT: Table = Table {
    name: "calls_in_flight",
    about: "calls that were seen not to return for long",
    columns: &[
        PID.required(),
        TID.required(),
        int("start_ns", "ns", "when it began, unix time").required(),
        text("op", "", "operation"),
        text(
            "stream",
            "",
            "stream handle, 0x and hex; NULL for the default stream, or where the call has none",
        ),
        text("handle", "", "function, pointer or handle the call is about, 0x and hex"),
        text("comm_id_hash", "", "the communicator of a collective, 0x and hex"),
        int("rank", "", "rank in the communicator"),
        int("nranks", "", "ranks of the communicator"),
        int("seq", "", "number of the collective in its communicator"),
        int("seen_ns", "ns", "when it was last seen to last").required(),
        int("ended_ns", "ns", "when it was first seen to be over; NULL while it lasts"),
        SESSION,
        int("stack_id", "", "Python's frames of the thread, read while the call lasted, see `frames`"),
    ],
    key: &["pid", "tid", "start_ns"],
    clustered: true,
    age: Some("seen_ns"),
    layer: None,
};
