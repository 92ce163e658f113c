//! The host's side: processes and threads, and what the recording itself was like: sessions, probes, loss.

use super::{CGROUP, PID, SESSION, TID, TIMESTAMP, Table, View, int, real, text};

pub(crate) const PROCESSES: Table = Table {
    name: "processes",
    about: "the processes that were traced",
    columns: &[
        PID.required(),
        int("start_ns", "ns", "when it started, unix time").required(),
        int("end_ns", "ns", "when it ended; NULL while it runs"),
        int("exit_code", "", "how it ended"),
        int("parent_pid", "", "its parent"),
        text("comm", "", "its name"),
        text("cmdline", "", "its command line"),
        text("exe", "", "its program file"),
        int("uid", "", "the user it runs as"),
        CGROUP,
        text("cgroup", "", "path of its cgroup"),
        text("container_id", "", "its container, see `containers`"),
        int("rank", "", "its rank in the job"),
        int("local_rank", "", "its rank on this node"),
        int("world_size", "", "ranks of the job"),
        SESSION,
        text(
            "rank_source",
            "",
            "who told rank and size: `communicator` (NCCL's largest), `several` (it holds several ranks), else the \
             launcher whose variables it was started with: `torchrun`, `slurm`, `openmpi`, `pmi`, ...",
        ),
        int("local_world_size", "", "ranks on this node, as the launcher says"),
        int("node_rank", "", "the node's number in the job, as the launcher says"),
        text(
            "tenant",
            "",
            "in one word, whose it is: pod, else job, container, systemd unit, cgroup or user",
        ),
        text("pod", "", "its Kubernetes pod"),
        text("namespace", "", "the pod's namespace"),
        text(
            "job_system",
            "",
            "who runs its job: `slurm`, `pbs`, `lsf`, `flux`, `ecs`, `kubernetes`, `ray` or `torchelastic`",
        ),
        text("job_id", "", "its job; of ECS the task"),
        text("job_step", "", "step of the job"),
        text("job_name", "", "name of the job; of ECS the family of the task"),
        text("job_user", "", "whose job it is"),
        text("job_queue", "", "partition, queue or cluster of the job"),
        text("unit", "", "its systemd service or scope, outside of containers"),
        text("cpus_allowed", "", "CPUs it may run on, as the kernel lists them"),
        text("mems_allowed", "", "memory nodes it may use, as the kernel lists them"),
    ],
    key: &["pid", "start_ns"],
    clustered: true,
    age: Some("end_ns"),
    layer: None,
};

pub(crate) const THREADS: Table = Table {
    name: "threads",
    about: "the threads of traced processes, as far as they were seen to start, run or end",
    columns: &[
        PID.required(),
        TID.required(),
        int("start_ns", "ns", "when it started; NULL where it ran before it was seen"),
        int("end_ns", "ns", "when it ended; NULL while it runs"),
        text("comm", "", "its name"),
        SESSION,
        int("cpu", "", "the CPU it ran on last; NULL where it made no GPU call"),
        int("numa_node", "", "memory node nearest to that CPU"),
        int("migrations", "", "how often it came to another CPU since its first GPU call"),
        int("node_migrations", "", "how often to one of another memory node"),
    ],
    key: &[],
    clustered: false,
    age: Some("end_ns"),
    layer: None,
};

pub(crate) const NEIGHBOURS: Table = Table {
    name: "neighbours",
    about: "processes that were not traced but stood behind waits of those that were: they had the CPU, held a lock, woke them",
    columns: &[
        PID.required(),
        text("comm", "", "name of the thread that was met first").required(),
        CGROUP,
        text("cgroup", "", "path of its cgroup"),
        text("tenant", "", "whose it is, in one word: pod, job, container, unit or cgroup"),
        int("first_seen_ns", "ns", "when it was first met").required(),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("first_seen_ns"),
    layer: None,
};

pub(crate) const MEMORY_PLACES: Table = Table {
    name: "memory_places",
    about: "on which memory nodes a traced process has its memory, and which node its GPU is nearest to",
    columns: &[
        TIMESTAMP,
        PID.required(),
        int("numa_node", "", "memory node").required(),
        int("bytes", "bytes", "of the process on it").required(),
        int("gpu", "", "the GPU it uses, where it uses one"),
        int("gpu_node", "", "memory node nearest to that GPU; NULL where the host does not say"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

/// Ten seconds.
const NOISE_NS: i64 = 10_000_000_000;

pub(crate) const NOISE: View = View {
    name: "noise",
    about: "who kept traced processes from the CPU, by process and tenant, in steps of ten seconds",
    columns: &[
        int("window_start_ns", "ns", "when the ten seconds began, unix time"),
        int("pid", "", "the traced process"),
        int("by_pid", "", "the process that had the CPU"),
        text("by_comm", "", "name of its thread"),
        text("tenant", "", "whose that is"),
        text("cgroup", "", "path of its cgroup"),
        int("ns", "ns", "how long the traced process's threads waited for it, in calls and between them"),
        int("count", "", "how many waits"),
    ],
    sql: || {
        format!(
            "SELECT b.window_start_ns / {NOISE_NS} * {NOISE_NS} AS window_start_ns, b.pid AS pid, b.by_pid AS by_pid, \
             b.by_comm AS by_comm, \
             coalesce((SELECT n.tenant FROM neighbours n WHERE n.pid = b.by_pid ORDER BY n.first_seen_ns DESC LIMIT 1), \
             (SELECT p.tenant FROM processes p WHERE p.pid = b.by_pid ORDER BY p.start_ns DESC LIMIT 1)) AS tenant, \
             coalesce((SELECT n.cgroup FROM neighbours n WHERE n.pid = b.by_pid ORDER BY n.first_seen_ns DESC LIMIT 1), \
             (SELECT p.cgroup FROM processes p WHERE p.pid = b.by_pid ORDER BY p.start_ns DESC LIMIT 1)) AS cgroup, \
             sum(b.ns) AS ns, sum(b.count) AS count FROM blame b \
             WHERE b.cause = 'cpu.preempted' AND b.by_pid <> b.pid GROUP BY 1, 2, 3, 4"
        )
    },
};

pub(crate) const PROCESS_EVENTS: Table = Table {
    name: "process_events",
    about: "what happened to traced processes and threads",
    columns: &[
        TIMESTAMP,
        text(
            "event",
            "",
            "`process_seen`, `process_fork`, `thread_start`, `process_exec`, `process_exit` or `thread_exit`",
        )
        .required(),
        PID,
        TID,
        int("child", "", "the new process or thread of a fork"),
        int("exit_code", "", "how it ended, for exits"),
        CGROUP,
        text("comm", "", "name of the thread"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: Some("process"),
};

pub(crate) const CONTAINERS: Table = Table {
    name: "containers",
    about: "the containers that traced processes ran in",
    columns: &[
        text("container_id", "", "its id").required(),
        text("runtime", "", "`docker`, `containerd`, `cri-o`, `podman`, ..."),
        text("name", "", "its name"),
        text("image", "", "its image"),
        text("pod", "", "its Kubernetes pod"),
        text("namespace", "", "the pod's namespace"),
        text("labels", "", "its labels as a JSON object"),
        CGROUP,
        text("cgroup", "", "path of its cgroup"),
        int("first_seen_ns", "ns", "when the first of its traced processes started"),
        int("last_seen_ns", "ns", "when the last of them ended; NULL while one runs"),
        SESSION,
        text("pod_uid", "", "UID of its pod"),
        text("qos", "", "class of its pod: `guaranteed`, `burstable` or `besteffort`"),
    ],
    key: &["container_id"],
    clustered: true,
    age: Some("last_seen_ns"),
    layer: None,
};

pub(crate) const SESSIONS: Table = Table {
    name: "sessions",
    about: "the runs of `gpuwhy trace` that wrote this file",
    columns: &[
        int("session_id", "", "number of the run in this file").required(),
        int("start_ns", "ns", "when it began, unix time").required(),
        int("end_ns", "ns", "when it ended; NULL while it runs, or where it was killed"),
        text("host", "", "the node's name"),
        text("kernel", "", "kernel release"),
        text("gpus", "", "the node's GPUs, a JSON list"),
        text("driver", "", "GPU driver version"),
        text("version", "", "version of gpuwhy"),
        text("flags", "", "its command line, a JSON list"),
        int("clock_offset_ns", "ns", "unix time minus the monotonic clock, at the start"),
        int("writer_pid", "", "process that wrote it"),
    ],
    key: &["session_id"],
    clustered: false,
    age: None,
    layer: None,
};

pub(crate) const WATCH_COSTS: Table = Table {
    name: "watch_costs",
    about: "what being watched cost each process: its bill, window by window",
    columns: &[
        int("window_start_ns", "ns", "when the window began, unix time").required(),
        int("window_ns", "ns", "how long the window was").required(),
        PID.required(),
        int("calls", "calls", "calls that were trapped"),
        int(
            "cost_ns",
            "ns",
            "what they cost all of its threads: calls times what a trap was measured to cost here",
        ),
        real("worst_thread_pct", "%", "of the thread that paid most, as a share of the window"),
        text(
            "level",
            "",
            "how much was seen: `full`, `no_stacks` (some calls have none), or `sliced` (see `watch_slices`); files of earlier \
             versions have `sample`, `count` and `detach` too",
        ),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("window_start_ns"),
    layer: None,
};

pub(crate) const WATCH_CHANGES: Table = Table {
    name: "watch_changes",
    about: "every step by which less or more was seen, to keep what watching costs within its budget; the latest \
            states are in `probes`",
    columns: &[
        TIMESTAMP,
        text("probe", "", "`governor` for a process's level, else the probe of a function").required(),
        text("target", "", "`process PID`, or the function that was detached or attached again"),
        text("file", "", "the library it is in"),
        text("state", "", "`degraded`, or `attached` for a step back up").required(),
        text("reason", "", "what is seen from now on, or why it is not"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("timestamp_ns"),
    layer: None,
};

pub(crate) const WATCH_SLICES: Table = Table {
    name: "watch_slices",
    about: "when frequent calls were watched, where that was not all the time: a row for each time, and one for each process that \
            being watched slowed down in it. Calls of a class without rows were watched all the time. Sums in `call_stats` are \
            exact for these times; what was done in all is estimated from them",
    columns: &[
        int("start_ns", "ns", "calls that began from here on, unix time").required(),
        int("end_ns", "ns", "and before here were watched").required(),
        text(
            "class",
            "",
            "which calls: `launches`, `events`, `memsets`, `kernel lookups`, `copies` or `synchronisations`; each has the \
             operations of one family, but `kernel lookups`",
        )
        .required(),
        int("pid", "", "nothing for all processes; else the process that was slowed down"),
        int("slowed_ns", "ns", "by how much being watched slowed the process down: otherwise it needs so much less time for the same"),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("end_ns"),
    layer: None,
};

pub(crate) const PROBES: Table = Table {
    name: "probes",
    about: "what was probed, how, and what it cost; what could not be probed, and why",
    columns: &[
        SESSION.required(),
        text("probe", "", "the probe").required(),
        text("target", "", "the function or tracepoint").required(),
        text("file", "", "the library file; empty for a tracepoint").required(),
        text("state", "", "`attached`, `degraded`, `refused` or `absent`").required(),
        text("flavour", "", "`session`, `multi`, `single` or `tracepoint`"),
        int("since_ns", "ns", "when it was attached, unix time"),
        text("reason", "", "why it is degraded or refused"),
        int("hits", "", "how often it fired"),
        int("cost_ns", "ns", "time it took from the traced processes"),
    ],
    key: &["session_id", "probe", "target", "file"],
    clustered: true,
    age: None,
    layer: None,
};

pub(crate) const LOSS: Table = Table {
    name: "loss",
    about: "records that were lost on the way, counted where they were dropped",
    columns: &[
        int("start_ns", "ns", "from when, unix time").required(),
        int("end_ns", "ns", "until when").required(),
        text("probe", "", "the probe whose records were lost").required(),
        int("cpu", "", "the CPU; -1 where it is not one CPU"),
        text("reason", "", "why"),
        int("count", "records", "how many").required(),
        SESSION,
    ],
    key: &[],
    clustered: false,
    age: Some("end_ns"),
    layer: None,
};

pub(crate) const RETENTION: Table = Table {
    name: "retention",
    about: "what was deleted to keep the file within its size",
    columns: &[
        int("time_ns", "ns", "when, unix time").required(),
        int("before_ns", "ns", "what is older than this is no longer complete").required(),
        int("rows", "rows", "how many rows").required(),
    ],
    key: &[],
    clustered: false,
    age: None,
    layer: None,
};

/// The rank a process had at that time, in a view over a dated table.
pub(super) fn rank(alias: &str) -> String {
    format!(
        "(SELECT p.rank FROM processes p WHERE p.pid = {alias}.pid AND p.start_ns <= {alias}.timestamp_ns \
         ORDER BY p.start_ns DESC LIMIT 1)"
    )
}

/// The host it happened on, in a view over a table that has sessions.
pub(super) fn node(alias: &str) -> String {
    format!("(SELECT s.host FROM sessions s WHERE s.session_id = {alias}.session_id)")
}
