//! What the kernel did to traced threads, told one by one: each kind of wait has its table.

use super::Ops;
use super::row::{handle, known, nonzero, put};
use crate::schema::kernel::{IO_EVENTS, MEM_EVENTS, NET_EVENTS, SCHED_EVENTS, TCP_EVENTS};
use gpuwhy_model::{Ends, IoEvent, OomEvent, Part, Reason, TcpEvent, WaitEvent};
use rusqlite::Connection;
use std::net::IpAddr;

pub(super) fn waits(
    db: &Connection,
    waits: &[WaitEvent],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    for wait in waits {
        let op = ops.name_of(db, wait.op)?;
        match wait.part {
            Part::Blocked(Reason::Fault | Reason::Reclaim) => memory(db, wait, op, session_id)?,
            Part::Blocked(Reason::BlockIo | Reason::File | Reason::Ioctl) => file(db, wait, op, session_id)?,
            Part::Blocked(Reason::Socket | Reason::Poll) => network(db, wait, op, session_id)?,
            _ => scheduler(db, wait, op, session_id)?,
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

fn scheduler(db: &Connection, wait: &WaitEvent, op: Option<&str>, session_id: i64) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(&SCHED_EVENTS.insert_sql("INSERT", 1))?;
    put!(
        insert,
        SCHED_EVENTS,
        "timestamp_ns" = wait.start_ns as i64,
        "duration_ns" = wait.duration_ns as i64,
        "event" = event_of(wait.part),
        "pid" = wait.pid,
        "tid" = wait.tid,
        "cgroup_id" = nonzero(wait.cgroup_id),
        "cpu" = wait.cpu,
        "target_cpu" = wait.target_cpu,
        "by_pid" = nonzero(wait.by_pid.into()),
        "by_tid" = nonzero(wait.by_tid.into()),
        "by_comm" = known(&wait.by_comm),
        "op" = op,
        "address" = handle(wait.address),
        "numa_node" = wait.node,
        "session_id" = session_id,
    );
    Ok(())
}

fn memory(db: &Connection, wait: &WaitEvent, op: Option<&str>, session_id: i64) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(&MEM_EVENTS.insert_sql("INSERT", 1))?;
    put!(
        insert,
        MEM_EVENTS,
        "timestamp_ns" = wait.start_ns as i64,
        "duration_ns" = wait.duration_ns as i64,
        "event" = event_of(wait.part),
        "pid" = wait.pid,
        "tid" = wait.tid,
        "cgroup_id" = nonzero(wait.cgroup_id),
        "address" = handle(wait.address),
        "numa_node" = wait.node,
        "op" = op,
        "session_id" = session_id,
    );
    Ok(())
}

fn file(db: &Connection, wait: &WaitEvent, op: Option<&str>, session_id: i64) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(&IO_EVENTS.insert_sql("INSERT", 1))?;
    put!(
        insert,
        IO_EVENTS,
        "timestamp_ns" = wait.start_ns as i64,
        "duration_ns" = wait.duration_ns as i64,
        "event" = event_of(wait.part),
        "pid" = wait.pid,
        "tid" = wait.tid,
        "cgroup_id" = nonzero(wait.cgroup_id),
        "device" = wait.file.as_ref().map(|file| device_text(file.device_name.as_deref(), file.device)),
        "file" = wait.file.as_ref().and_then(|file| file.path.as_deref()),
        "fd" = wait.file.as_ref().map(|file| file.fd),
        "inode" = wait.file.as_ref().and_then(|file| nonzero(file.inode)),
        "by_pid" = nonzero(wait.by_pid.into()),
        "by_tid" = nonzero(wait.by_tid.into()),
        "by_comm" = known(&wait.by_comm),
        "op" = op,
        "session_id" = session_id,
    );
    Ok(())
}

fn network(db: &Connection, wait: &WaitEvent, op: Option<&str>, session_id: i64) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(&NET_EVENTS.insert_sql("INSERT", 1))?;
    let socket = wait.socket.as_ref();
    put!(
        insert,
        NET_EVENTS,
        "timestamp_ns" = wait.start_ns as i64,
        "duration_ns" = wait.duration_ns as i64,
        "event" = event_of(wait.part),
        "pid" = wait.pid,
        "tid" = wait.tid,
        "cgroup_id" = nonzero(wait.cgroup_id),
        "protocol" = socket.map(|socket| socket.protocol.as_str()),
        "saddr" = socket.and_then(|socket| shown(socket.local)),
        "daddr" = socket.and_then(|socket| shown(socket.remote)),
        "sport" = socket.and_then(local_port),
        "dport" = socket.and_then(remote_port),
        "state" = socket.and_then(|socket| known(&socket.state)),
        "fd" = wait.file.as_ref().map(|file| file.fd),
        "by_pid" = nonzero(wait.by_pid.into()),
        "by_tid" = nonzero(wait.by_tid.into()),
        "by_comm" = known(&wait.by_comm),
        "op" = op,
        "session_id" = session_id,
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
    for request in requests {
        let mut insert = db.prepare_cached(&IO_EVENTS.insert_sql("INSERT", 1))?;
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
    for event in events {
        let mut insert = db.prepare_cached(&TCP_EVENTS.insert_sql("INSERT", 1))?;
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
    for kill in kills {
        let mut insert = db.prepare_cached(&MEM_EVENTS.insert_sql("INSERT", 1))?;
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
