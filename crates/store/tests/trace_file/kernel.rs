//! What the kernel did, told one by one: every kind has its table, and no row has anything of the one before.

use crate::made::{START, lines, trace};
use gpuwhy_model::{
    Batch, CpuSample, Ends, Facts, FileRef, IoEvent, MemoryPlace, OomEvent, OpId, Part, Reason, TcpEvent,
    ThreadPlace, WaitEvent, WokenBy,
};

fn wait(number: u64, part: Part) -> WaitEvent {
    WaitEvent {
        start_ns: START + number,
        duration_ns: 100 + number,
        pid: 10,
        tid: 11,
        cgroup_id: 0,
        op: OpId::NONE,
        part,
        by_pid: 0,
        by_tid: 0,
        by_comm: String::new(),
        cpu: 1,
        target_cpu: 2,
        node: 0,
        address: 0,
        file: None,
        socket: None,
        syscall: None,
        woken_by: None,
    }
}

/// The same with everything known of it.
fn reported(number: u64, part: Part) -> WaitEvent {
    WaitEvent {
        cgroup_id: 7,
        op: OpId(1),
        by_pid: 20,
        by_tid: 21,
        by_comm: "other".into(),
        address: 0xff,
        file: Some(FileRef {
            fd: 3,
            device: (8, 1),
            device_name: Some("sda1".into()),
            inode: 99,
            path: Some("/data".into()),
        }),
        socket: Some(ends()),
        syscall: Some(202),
        woken_by: Some(WokenBy::Task),
        ..wait(number, part)
    }
}

fn ends() -> Ends {
    Ends {
        protocol: "tcp".into(),
        local: Some([127, 0, 0, 1].into()),
        remote: Some([10, 0, 0, 2].into()),
        local_port: 4000,
        remote_port: 0,
        state: "ESTABLISHED".into(),
    }
}

#[test]
fn waits_go_where_their_reason_belongs() {
    let parts = [Part::Runnable, Part::Blocked(Reason::Fault), Part::Blocked(Reason::File)];
    let parts = parts.into_iter().chain([Part::Blocked(Reason::Socket)]).zip(0..);
    let wait_events = parts.flat_map(|(part, kind)| [reported(10 * kind, part), wait(10 * kind + 1, part)]);
    let batch = Batch { wait_events: wait_events.collect(), ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    let told_of_all = "timestamp_ns, duration_ns, event, pid, tid, cgroup_id, op, session_id";
    let of = |table: &str, more: &str| lines(&reader, &format!("SELECT {told_of_all}, {more} FROM {table}"));
    assert_eq!(
        of("sched_events", "by_pid, by_tid, by_comm, cpu, target_cpu, address, numa_node"),
        [
            "+0|100|preempted|10|11|7|cuLaunchKernel|1|20|21|other|1|2|0xff|0",
            "+1|101|preempted|10|11|-|-|1|-|-|-|1|2|-|0"
        ]
    );
    assert_eq!(
        of("mem_events", "by_pid, by_comm, address, numa_node"),
        ["+10|110|fault|10|11|7|cuLaunchKernel|1|-|-|0xff|0", "+11|111|fault|10|11|-|-|1|-|-|-|0"]
    );
    assert_eq!(
        of("io_events", "by_pid, by_tid, by_comm, device, file, fd, inode"),
        [
            "+20|120|file|10|11|7|cuLaunchKernel|1|20|21|other|sda1|/data|3|99",
            "+21|121|file|10|11|-|-|1|-|-|-|-|-|-|-"
        ]
    );
    assert_eq!(
        of("net_events", "by_pid, by_tid, by_comm, protocol, saddr, daddr, sport, dport, state, fd"),
        [
            "+30|130|socket|10|11|7|cuLaunchKernel|1|20|21|other|tcp|127.0.0.1|10.0.0.2|4000|-|ESTABLISHED|3",
            "+31|131|socket|10|11|-|-|1|-|-|-|-|-|-|-|-|-|-"
        ]
    );
}

#[test]
fn waits_say_what_ended_them_and_the_system_call() {
    for (part, table) in [
        (Part::Blocked(Reason::Futex), "sched_events"),
        (Part::Blocked(Reason::File), "io_events"),
        (Part::Blocked(Reason::Poll), "net_events"),
    ] {
        let timer = WaitEvent { woken_by: Some(WokenBy::Timer), ..wait(3, part) };
        let wait_events = vec![reported(1, part), wait(2, part), timer];
        let (_folder, reader) = trace(&Batch { wait_events, ..Batch::default() }, &Facts::default());
        let rows = lines(&reader, &format!("SELECT timestamp_ns, woken_by, syscall FROM {table}"));
        assert_eq!(rows, ["+1|task|202", "+2|-|-", "+3|timer|-"], "{table}");
    }
}

#[test]
fn requests_retransmits_and_kills_share_tables_with_waits() {
    let request = IoEvent {
        start_ns: START,
        duration_ns: 5,
        queue_ns: 2,
        pid: 10,
        tid: 0,
        cgroup_id: 7,
        device: (259, 3),
        device_name: None,
        sector: 64,
        bytes: 4096,
        rw: "read".into(),
        ret: -5,
    };
    let retransmit = TcpEvent {
        time_ns: START + 1,
        pid: 10,
        tid: 11,
        cgroup_id: 7,
        ends: ends(),
        inode: 99,
        seq: 17,
        bytes: 1448,
        srtt_us: 30,
        retransmits: 2,
        rank: Some(0),
    };
    let kill = OomEvent {
        time_ns: START + 2,
        pid: 30,
        cgroup_id: 0,
        by_pid: 20,
        by_tid: 21,
        by_comm: "greedy".into(),
    };
    let batch = Batch {
        wait_events: vec![
            reported(9, Part::Blocked(Reason::BlockIo)),
            reported(9, Part::Blocked(Reason::Reclaim)),
        ],
        io_events: vec![request],
        tcp_events: vec![retransmit],
        oom_events: vec![kill],
        ..Batch::default()
    };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, event, pid, tid, cgroup_id, device, sector, bytes, rw, queue_ns, ret, \
             file, fd, op, by_pid FROM io_events WHERE event = 'request'"
        ),
        ["+0|5|request|10|-|7|259:3|64|4096|read|2|-5|-|-|-|-"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, event, pid, tid, cgroup_id, saddr, daddr, sport, dport, seq, state, \
             bytes, srtt_us, retransmits, rank FROM tcp_events"
        ),
        ["+1|0|tcp_retransmit_skb|10|11|7|127.0.0.1|10.0.0.2|4000|-|17|ESTABLISHED|1448|30|2|0"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, pid, tid, cgroup_id, by_pid, by_comm, address, op FROM mem_events \
             WHERE event = 'oom_kill'"
        ),
        ["+2|0|30|-|-|20|greedy|-|-"]
    );
}

#[test]
fn threads_and_memory_have_places() {
    let thread = |cpu| ThreadPlace { pid: 10, tid: 11, cpu, node: 1, migrations: 3, node_migrations: 2 };
    let memory = MemoryPlace {
        time_ns: START,
        pid: 10,
        nodes: vec![(0, 4096), (1, 8192)],
        gpu: Some(2),
        gpu_node: Some(1),
    };
    let batch =
        Batch { thread_places: vec![thread(4), thread(5)], memory_places: vec![memory], ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(&reader, "SELECT pid, tid, start_ns, cpu, numa_node, migrations, node_migrations FROM threads"),
        ["10|11|-|5|1|3|2"]
    );
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, pid, numa_node, bytes, gpu, gpu_node FROM memory_places"),
        ["+0|10|0|4096|2|1", "+0|10|1|8192|2|1"]
    );
}

#[test]
fn samples_of_running_code_are_rows_and_the_unknown_is_null() {
    let known = CpuSample {
        time_ns: START + 1,
        pid: 10,
        tid: 11,
        cpu: 3,
        op: OpId(2),
        weight_ns: 10_101_010,
        in_kernel: true,
        syscall: Some(202),
        collecting: Some(true),
        stack_id: Some(-7),
        stack_key: 99,
    };
    let bare = CpuSample { time_ns: START + 2, pid: 10, tid: 12, weight_ns: 5, ..CpuSample::default() };
    let batch = Batch { cpu_samples: vec![known, bare], ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, pid, tid, cpu, op, stack_id, weight_ns, kernel, syscall, gc, session_id FROM cpu_samples"
        ),
        ["+1|10|11|3|cudaMalloc|-7|10101010|1|202|1|1", "+2|10|12|0|-|-|5|0|-|-|1"]
    );
}
