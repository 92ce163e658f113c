//! What the kernel did to traced threads, told one by one: each kind of wait has its table.

use super::Ops;
use super::row::{handle, insert_into, known, nonzero, put};
use crate::schema::kernel::{IO_EVENTS, MEM_EVENTS, NET_EVENTS, SCHED_EVENTS, TCP_EVENTS};
use gpuwhy_model::{Ends, IoEvent, OomEvent, Part, Reason, TcpEvent, WaitEvent, WokenBy};
use rusqlite::{Connection, Statement};
use std::net::IpAddr;

pub(super) fn waits(
    db: &Connection,
    waits: &[WaitEvent],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if waits.is_empty() {
        return Ok(());
    }
    let mut scheduler = insert_into(db, &SCHED_EVENTS)?;
    let mut memory = insert_into(db, &MEM_EVENTS)?;
    let mut io = insert_into(db, &IO_EVENTS)?;
    let mut network = insert_into(db, &NET_EVENTS)?;
    for wait in waits {
        let op = ops.name_of(db, wait.op)?;
        match wait.part {
            Part::Blocked(Reason::Fault | Reason::Reclaim) => put_memory(&mut memory, wait, op, session_id)?,
            Part::Blocked(Reason::BlockIo | Reason::File | Reason::Ioctl) => {
                put_io(&mut io, wait, op, session_id)?;
            }
            Part::Blocked(Reason::Socket | Reason::Poll) => put_network(&mut network, wait, op, session_id)?,
            _ => put_scheduler(&mut scheduler, wait, op, session_id)?,
        }
    }
    Ok(())
}

fn event_of(part: Part) -> &'static str {
    match part {
        Part::Runnable => "preempted",
        Part::OnCpu => "on_cpu",
        Part::Blocked(reason) => reason.name(),
    }
}

/// A wait: what is said of all of them, and what its table has beside.
macro_rules! put_wait {
    ($insert:expr, $table:expr, $wait:expr, $op:expr, $session_id:expr, $($column:literal = $value:expr),* $(,)?) => {
        put!(
            $insert,
            $table,
            "timestamp_ns" = $wait.start_ns as i64,
            "duration_ns" = $wait.duration_ns as i64,
            "event" = event_of($wait.part),
            "pid" = $wait.pid,
            "tid" = $wait.tid,
            "cgroup_id" = nonzero($wait.cgroup_id),
            "op" = $op,
            "session_id" = $session_id,
            $($column = $value),*
        )
    };
}

/// The same where somebody was behind it.
macro_rules! put_wait_by {
    ($insert:expr, $table:expr, $wait:expr, $($rest:tt)*) => {
        put_wait!(
            $insert,
            $table,
            $wait,
            $($rest)*
            "by_pid" = nonzero($wait.by_pid.into()),
            "by_tid" = nonzero($wait.by_tid.into()),
            "by_comm" = known(&$wait.by_comm),
            "woken_by" = $wait.woken_by.map(WokenBy::name),
            "syscall" = $wait.syscall,
        )
    };
}

fn put_scheduler(
    insert: &mut Statement<'_>,
    wait: &WaitEvent,
    op: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    put_wait_by!(
        insert,
        SCHED_EVENTS,
        wait,
        op,
        session_id,
        "cpu" = wait.cpu,
        "target_cpu" = wait.target_cpu,
        "address" = handle(wait.address),
        "numa_node" = wait.node,
    );
    Ok(())
}

fn put_memory(
    insert: &mut Statement<'_>,
    wait: &WaitEvent,
    op: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    put_wait!(
        insert,
        MEM_EVENTS,
        wait,
        op,
        session_id,
        "address" = handle(wait.address),
        "numa_node" = wait.node,
    );
    Ok(())
}

fn put_io(
    insert: &mut Statement<'_>,
    wait: &WaitEvent,
    op: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    let file = wait.file.as_ref();
    put_wait_by!(
        insert,
        IO_EVENTS,
        wait,
        op,
        session_id,
        "device" = file.map(|file| device_text(file.device_name.as_deref(), file.device)),
        "file" = file.and_then(|file| file.path.as_deref()),
        "fd" = file.map(|file| file.fd),
        "inode" = file.and_then(|file| nonzero(file.inode)),
    );
    Ok(())
}

fn put_network(
    insert: &mut Statement<'_>,
    wait: &WaitEvent,
    op: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    let socket = wait.socket.as_ref();
    put_wait_by!(
        insert,
        NET_EVENTS,
        wait,
        op,
        session_id,
        "protocol" = socket.map(|socket| socket.protocol.as_str()),
        "saddr" = socket.and_then(|socket| shown(socket.local)),
        "daddr" = socket.and_then(|socket| shown(socket.remote)),
        "sport" = socket.and_then(local_port),
        "dport" = socket.and_then(remote_port),
        "state" = socket.and_then(|socket| known(&socket.state)),
        "fd" = wait.file.as_ref().map(|file| file.fd),
    );
    Ok(())
}

fn shown(address: Option<IpAddr>) -> Option<String> {
    address.map(|address| address.to_string())
}

fn local_port(ends: &Ends) -> Option<i64> {
    nonzero(ends.local_port.into())
}

fn remote_port(ends: &Ends) -> Option<i64> {
    nonzero(ends.remote_port.into())
}

fn device_text(name: Option<&str>, (major, minor): (u32, u32)) -> String {
    name.map_or_else(|| format!("{major}:{minor}"), ToString::to_string)
}

pub(super) fn requests(db: &Connection, requests: &[IoEvent], session_id: i64) -> rusqlite::Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &IO_EVENTS)?;
    for request in requests {
        put!(
            insert,
            IO_EVENTS,
            "timestamp_ns" = request.start_ns as i64,
            "duration_ns" = request.duration_ns as i64,
            "event" = "request",
            "pid" = nonzero(request.pid.into()),
            "tid" = nonzero(request.tid.into()),
            "cgroup_id" = nonzero(request.cgroup_id),
            "device" = device_text(request.device_name.as_deref(), request.device),
            "sector" = request.sector as i64,
            "bytes" = request.bytes as i64,
            "rw" = &request.rw,
            "queue_ns" = request.queue_ns as i64,
            "ret" = request.ret,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn retransmits(db: &Connection, events: &[TcpEvent], session_id: i64) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &TCP_EVENTS)?;
    for event in events {
        put!(
            insert,
            TCP_EVENTS,
            "timestamp_ns" = event.time_ns as i64,
            "duration_ns" = 0,
            "event" = "tcp_retransmit_skb",
            "pid" = nonzero(event.pid.into()),
            "tid" = nonzero(event.tid.into()),
            "cgroup_id" = nonzero(event.cgroup_id),
            "saddr" = shown(event.ends.local),
            "daddr" = shown(event.ends.remote),
            "sport" = local_port(&event.ends),
            "dport" = remote_port(&event.ends),
            "seq" = event.seq,
            "state" = known(&event.ends.state),
            "bytes" = event.bytes,
            "srtt_us" = event.srtt_us,
            "retransmits" = event.retransmits,
            "rank" = event.rank,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn kills(db: &Connection, kills: &[OomEvent], session_id: i64) -> rusqlite::Result<()> {
    if kills.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &MEM_EVENTS)?;
    for kill in kills {
        put!(
            insert,
            MEM_EVENTS,
            "timestamp_ns" = kill.time_ns as i64,
            "duration_ns" = 0,
            "event" = "oom_kill",
            "pid" = kill.pid,
            "cgroup_id" = nonzero(kill.cgroup_id),
            "by_pid" = nonzero(kill.by_pid.into()),
            "by_comm" = known(&kill.by_comm),
            "session_id" = session_id,
        );
    }
    Ok(())
}
