//! What streams, copies and first calls cost, and which calls have not returned.

use super::Ops;
use super::row::{handle, hex, insert_into, known, nonzero, number, put};
use crate::schema::work::{CALLS_IN_FLIGHT, COLDSTART_EVENTS, COPY_STATS, GPU_TIME};
use gpuwhy_model::{CallInFlight, ColdStart, CopyWindow, GpuTime};
use rusqlite::Connection;

pub(super) fn cold_starts(
    db: &Connection,
    cold_starts: &[ColdStart],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if cold_starts.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &COLDSTART_EVENTS)?;
    for cold in cold_starts {
        put!(
            insert,
            COLDSTART_EVENTS,
            "timestamp_ns" = cold.start_ns as i64,
            "duration_ns" = cold.duration_ns as i64,
            "event" = &cold.event,
            "op" = ops.name_of(db, cold.op)?,
            "pid" = cold.pid,
            "tid" = cold.tid,
            "cgroup_id" = nonzero(cold.cgroup_id),
            "name" = known(&cold.name),
            "bytes" = cold.bytes as i64,
            "ret" = cold.ret,
            "stack_id" = cold.stack_id,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn gpu_times(db: &Connection, times: &[GpuTime], session_id: i64) -> rusqlite::Result<()> {
    if times.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &GPU_TIME)?;
    for time in times {
        put!(
            insert,
            GPU_TIME,
            "window_start_ns" = time.window_start_ns as i64,
            "window_ns" = time.window_ns as i64,
            "pid" = time.pid,
            "stream" = handle(time.stream),
            "stream_tid" = nonzero(time.stream_tid.into()),
            "submitted" = time.submitted as i64,
            "launches" = time.launches as i64,
            "launch_ns" = time.launch_ns as i64,
            "busy_lower_ns" = time.busy_lower_ns as i64,
            "busy_upper_ns" = time.busy_upper_ns as i64,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn copies(db: &Connection, copies: &[CopyWindow], session_id: i64) -> rusqlite::Result<()> {
    if copies.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &COPY_STATS)?;
    for window in copies {
        put!(
            insert,
            COPY_STATS,
            "window_start_ns" = window.window_start_ns as i64,
            "window_ns" = window.window_ns as i64,
            "pid" = window.pid,
            "cgroup_id" = nonzero(window.cgroup_id),
            "direction" = window.direction.name(),
            "count" = window.count as i64,
            "bytes" = window.bytes as i64,
            "sum_ns" = window.sum_ns as i64,
            "errors" = window.errors as i64,
            "session_id" = session_id,
        );
    }
    Ok(())
}

/// A later row tells how long the call has been seen to last, and that it is over.
pub(super) fn in_flight(
    db: &Connection,
    calls: &[CallInFlight],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let mut replace = db.prepare_cached(&CALLS_IN_FLIGHT.replace_sql())?;
    for call in calls {
        put!(
            replace,
            CALLS_IN_FLIGHT,
            "pid" = call.pid,
            "tid" = call.tid,
            "start_ns" = call.start_ns as i64,
            "op" = ops.name_of(db, call.op)?,
            "stream" = handle(call.stream),
            "handle" = handle(call.handle),
            "comm_id_hash" = call.comm_id_hash.map(hex),
            "rank" = call.rank,
            "nranks" = call.nranks,
            "seq" = number(call.seq),
            "seen_ns" = call.seen_ns as i64,
            "ended_ns" = number(call.ended_ns),
            "session_id" = session_id,
            "stack_id" = call.stack_id,
        );
    }
    Ok(())
}
