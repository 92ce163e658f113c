//! Where in the code, what the users marked, and what was concluded.

use super::{CGROUP, DURATION, PID, SESSION, TID, TIMESTAMP, Table, int, real, text};

pub(crate) const STACKS: Table = Table {
    name: "stacks",
    about: "the stacks of kept calls, as addresses",
    columns: &[
        int("stack_id", "", "number made from process and addresses").required(),
        PID,
        text("addresses", "", "return addresses, innermost first, a JSON list of 0x and hex"),
        int("complete", "", "1 where it goes down to where the thread began"),
    ],
    key: &["stack_id"],
    clustered: false,
    age: None,
    layer: None,
};

pub(crate) const FRAMES: Table = Table {
    name: "frames",
    about: "the stacks of kept calls, as functions and lines",
    columns: &[
        int("stack_id", "", "the stack").required(),
        int("depth", "", "0 is the innermost").required(),
        text("kind", "", "`python`, `native` or `kernel`"),
        text("function", "", "the function"),
        text("file", "", "its source file"),
        int("line", "", "line in it"),
        text("module", "", "library or program it is in"),
        text("address", "", "address, 0x and hex; NULL for Python"),
        int("inlined", "", "1 where the compiler put it into the function that follows"),
    ],
    key: &["stack_id", "depth"],
    clustered: true,
    age: None,
    layer: None,
};

pub(crate) const WAIT_SAMPLES: Table = Table {
    name: "wait_samples",
    about: "Python threads of traced processes and of those that wake them, sampled some times a second between GPU calls, or blocked \
            in one: a line that is sampled often is where the time goes. A thread that makes no GPU calls and waits for longer than \
            ten seconds is not sampled again",
    columns: &[
        TIMESTAMP,
        PID.required(),
        TID.required(),
        int("since_ns", "ns", "when the wait began, unix time; the moment itself where it ran").required(),
        text(
            "reason",
            "",
            "what it waited for: `futex`, `block_io`, `sleep`, ...; or `runnable` (another had its CPU), `on_cpu`",
        )
        .required(),
        int("stack_id", "", "its Python frames, see `frames`").required(),
        SESSION,
        int("weight_ns", "ns", "since the last look: the time this one stands for; in older files a quarter of a second"),
        int("makes_calls", "", "1 where the thread makes GPU calls, 0 where it makes none; NULL in older files, which have the former alone"),
        text("op", "", "the GPU call it was blocked in; NULL between calls"),
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const CPU_SAMPLES: Table = Table {
    name: "cpu_samples",
    about: "threads that make GPU calls, sampled 49 times a second of their time on a CPU: code that is sampled often is where \
            the CPU time goes, in calls and between them",
    columns: &[
        TIMESTAMP,
        PID.required(),
        TID.required(),
        int("cpu", "", "CPU it ran on"),
        text("op", "", "the call it was in; NULL between calls"),
        int(
            "stack_id",
            "",
            "its Python frames and the native function it was in, or its native frames as far as frame pointers lead, see \
             `frames`; NULL with `--stacks off`",
        ),
        int("weight_ns", "ns", "the time this sample stands for").required(),
        int("kernel", "", "1 where the kernel ran on its behalf: a system call, a page fault, an interrupt")
            .required(),
        int("syscall", "", "number of the system call it was in; NULL for none"),
        int(
            "gc",
            "",
            "1 while it collected garbage for its Python interpreter; NULL where that is not known",
        ),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const ANNOTATIONS: Table = Table {
    name: "annotations",
    about: "steps, epochs and requests that programs, or somebody with `gpuwhy annotate`, marked while the trace ran with `--annotate`",
    columns: &[
        TIMESTAMP,
        DURATION,
        text("event", "", "what is marked, such as `step`: the name of the first label").required(),
        text("value", "", "its value"),
        text("labels", "", "all labels given, a JSON object"),
        PID,
        TID,
        CGROUP,
        SESSION,
        text("state", "", "`at` a moment, `open` (nobody said that it is over) or `ended`"),
        text(
            "clock",
            "",
            "whose clock: `annotator` (CLOCK_MONOTONIC as it was sent) or `received` (when it came)",
        ),
        int("uid", "", "user whose process it is, or who said it; 0 with no process: it is about all"),
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("annotation"),
};

pub(crate) const FINDINGS: Table = Table {
    name: "findings",
    about: "what `gpuwhy trace` concluded when it ended; `gpuwhy explain` computes it anew",
    columns: &[
        text("id", "", "id of the finding").required(),
        text("severity", "", "`critical`, `high`, `medium` or `low`").required(),
        text("title", "", "the finding in a sentence").required(),
        text("op", "", "operation"),
        PID,
        text("process", "", "name of the process"),
        text("cgroup", "", "its cgroup"),
        int("rank", "", "its rank"),
        text("node", "", "host"),
        int("start_ns", "ns", "from when, unix time").required(),
        int("end_ns", "ns", "until when").required(),
        int("calls", "calls", "calls in that time"),
        int("slow_calls", "calls", "of them slow"),
        real("p50_us", "us", "median duration"),
        real("p99_us", "us", "99th percentile"),
        real("max_us", "us", "the longest"),
        real("excess_ms", "ms", "time above what is usual"),
        real("wall_pct", "%", "share of the wall time"),
        real("explained_pct", "%", "share of the excess that is explained"),
        text("causes", "", "the causes, a JSON list as in `explain --json`"),
        text("where_json", "", "where in the code, a JSON object as in `explain --json`"),
        text("fixes", "", "what to do, a JSON list"),
        text("sql", "", "a query that shows the evidence"),
        SESSION.required(),
        text("rule", "", "the rule that found it"),
        text("refuted_by", "", "what would show that it is not so"),
        text("steps", "", "the steps, epochs or requests it falls into, a JSON list as in `explain --json`"),
        text(
            "by_design",
            "",
            "how the program is built, such as `launch bound`, where that is all there is to it: it is no fault",
        ),
    ],
    key: &["session_id", "id"],
    clustered: true,
    age: Some("end_ns"),
    layer: None,
};
