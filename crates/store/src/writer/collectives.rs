//! Collectives, and when they were known to be done.

use super::row::{bind_reasons, handle, hex, insert_into, known, nonzero, number, put};
use super::{Libraries, Ops};
use crate::schema::nccl::NCCL_EVENTS;
use gpuwhy_model::{Collective, CollectiveWait};
use rusqlite::{Connection, params};

pub(super) fn calls(
    db: &Connection,
    collectives: &[Collective],
    ops: &mut Ops,
    libraries: &Libraries,
    session_id: i64,
) -> rusqlite::Result<()> {
    if collectives.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &NCCL_EVENTS)?;
    for c in collectives {
        let call = &c.call;
        bind_reasons(&mut insert, const { NCCL_EVENTS.reasons() }, &call.blame)?;
        put!(
            insert,
            NCCL_EVENTS,
            "timestamp_ns" = call.start_ns as i64,
            "duration_ns" = call.duration_ns as i64,
            "op" = &c.event,
            "pid" = call.pid,
            "tid" = call.tid,
            "cgroup_id" = nonzero(call.cgroup_id),
            "rank" = c.rank,
            "nranks" = c.nranks,
            "comm_id_hash" = c.comm_id_hash.map(hex),
            "seq" = number(c.seq),
            "count" = number(c.count),
            "bytes" = number(c.bytes),
            "datatype" = c.datatype.as_deref().and_then(known),
            "reduce_op" = c.reduce_op.as_deref().and_then(known),
            "peer" = c.peer,
            "stream" = handle(call.stream),
            "comm" = handle(c.comm),
            "ret" = call.ret,
            "kept" = call.kept.name(),
            "stack_id" = call.stack_id,
            "oncpu_ns" = call.blame.oncpu_ns as i64,
            "runq_ns" = call.blame.runq_ns as i64,
            "blocked_ns" = call.blame.blocked_total_ns() as i64,
            "session_id" = session_id,
            "function" = ops.name_of(db, call.op)?,
            "grouped" = c.grouped,
            "sample_weight" = call.sample_weight,
            "caller" = handle(call.caller),
            "gpu" = call.device,
            "library_id" = libraries.file_id(call.library),
        );
    }
    Ok(())
}

/// Found by their time: a thread makes one call at a time.
pub(super) fn waits(db: &Connection, waits: &[CollectiveWait], ops: &mut Ops) -> rusqlite::Result<()> {
    if waits.is_empty() {
        return Ok(());
    }
    let mut update = db.prepare_cached(
        "UPDATE nccl_events SET completed_ns = ?, wait_ns = ?, waited_in = ? \
         WHERE timestamp_ns = ? AND pid = ? AND tid = ?",
    )?;
    for wait in waits {
        update.execute(params![
            wait.completed_ns as i64,
            wait.wait_ns as i64,
            ops.name_of(db, wait.waited_in)?,
            wait.start_ns as i64,
            wait.pid,
            wait.tid,
        ])?;
    }
    Ok(())
}
