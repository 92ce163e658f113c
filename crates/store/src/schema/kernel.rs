//! What the kernel did meanwhile: scheduler, memory, disk, network, RDMA.

use super::{
    BY_COMM, BY_PID, BY_TID, CGROUP, Column, DURATION, PID, SESSION, STACK, TID, TIMESTAMP, Table, int, text,
};

const EVENT: Column = text("event", "", "what happened").required();
const OP: Column = text("op", "", "the call the thread was in; NULL between calls");
const BYTES: Column = int("bytes", "bytes", "bytes it was about");
const SADDR: Column = text("saddr", "", "local address");
const DADDR: Column = text("daddr", "", "remote address");
const SPORT: Column = int("sport", "", "local port");
const DPORT: Column = int("dport", "", "remote port");

const WOKEN_BY: Column = text(
    "woken_by",
    "",
    "what ended the wait: `task` (one that wanted to, see `by_pid`), `timer` (its timeout ran out), `interrupt` (another one, as \
     that of a network card); NULL where that is not known",
);
const SYSCALL: Column = int("syscall", "", "number of the system call it blocked in; NULL outside of one");

const fn event_table(
    name: &'static str,
    layer: &'static str,
    about: &'static str,
    columns: &'static [Column],
) -> Table {
    Table { name, about, columns, key: &[], clustered: false, age: Some("timestamp_ns"), layer: Some(layer) }
}

pub(crate) const SCHED_EVENTS: Table = event_table(
    "sched_events",
    "sched",
    "long waits of traced threads for a CPU or a lock: `preempted`, `throttled`, `futex`, `gil`, `sleep`, `other`",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        int("cpu", "", "CPU it happened on"),
        int("target_cpu", "", "CPU a thread was moved to"),
        int("priority", "", "kernel priority of the thread"),
        BY_PID,
        BY_TID,
        BY_COMM,
        STACK,
        SESSION,
        OP,
        text("address", "", "of the futex it waited for, 0x and hex"),
        int("numa_node", "", "memory node nearest to the CPU it ran on afterwards"),
        WOKEN_BY,
        SYSCALL,
    ],
);

pub(crate) const MEM_EVENTS: Table = event_table(
    "mem_events",
    "mem",
    "long page faults and reclaims of traced threads (`fault`, `reclaim`), and `oom_kill`s of anybody",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        text("address", "", "address that faulted, 0x and hex"),
        BYTES,
        int("pages", "pages", "pages reclaimed or faulted in"),
        int("numa_node", "", "memory node"),
        BY_PID,
        BY_COMM,
        STACK,
        SESSION,
        OP,
    ],
);

pub(crate) const IO_EVENTS: Table = event_table(
    "io_events",
    "io",
    "slow disk requests of traced processes (`request`), and long waits for disks, files, pipes and drivers (`block_io`, `file`, `ioctl`)",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        text("device", "", "block device"),
        text("file", "", "file name, where known"),
        int("sector", "", "first sector"),
        BYTES,
        text("rw", "", "`read`, `write`, `sync` or `discard`"),
        int("queue_ns", "ns", "of the duration: waiting to be issued"),
        int("ret", "", "result"),
        STACK,
        SESSION,
        OP,
        int("fd", "", "file descriptor it waited on"),
        int("inode", "", "inode of the file"),
        BY_PID,
        BY_TID,
        BY_COMM,
        WOKEN_BY,
        SYSCALL,
    ],
);

pub(crate) const NET_EVENTS: Table = event_table(
    "net_events",
    "net",
    "long waits of traced threads on sockets (`socket`) and in poll, select or epoll (`poll`)",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        text("protocol", "", "`tcp`, `udp`, `unix`, ..."),
        SADDR,
        DADDR,
        SPORT,
        DPORT,
        BYTES,
        int("ret", "", "result"),
        STACK,
        SESSION,
        OP,
        int("fd", "", "file descriptor it waited on; NULL for poll and epoll"),
        text("state", "", "state of a TCP connection"),
        BY_PID,
        BY_TID,
        BY_COMM,
        WOKEN_BY,
        SYSCALL,
    ],
);

pub(crate) const TCP_EVENTS: Table = event_table(
    "tcp_events",
    "tcp",
    "TCP trouble: `tcp_retransmit_skb`, resets",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        SADDR,
        DADDR,
        SPORT,
        DPORT,
        int("seq", "", "TCP sequence number"),
        text("state", "", "state of the connection"),
        BYTES,
        int("srtt_us", "us", "smoothed round-trip time"),
        int("rto_us", "us", "retransmission timeout"),
        int("retransmits", "", "retransmits of this segment in a row"),
        SESSION,
        int("rank", "", "rank of the process, where it has one"),
    ],
);

pub(crate) const RDMA_EVENTS: Table = event_table(
    "rdma_events",
    "rdma",
    "RDMA verbs, asynchronous events and error counters that rose",
    &[
        TIMESTAMP,
        DURATION,
        EVENT,
        PID,
        TID,
        CGROUP,
        text("device", "", "RDMA device"),
        int("port", "", "its port"),
        int("qp", "", "queue pair number"),
        text("opcode", "", "work request"),
        BYTES,
        int("ret", "", "status of the completion, or result of the call"),
        text("counter", "", "name of the counter"),
        int("value", "", "value of the counter"),
        int("delta", "", "how much it rose"),
        SESSION,
    ],
);
