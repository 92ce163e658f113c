//! Device memory: each piece, the sums over time, and the failures.

use super::Ops;
use super::row::{hex, insert_into, number, put};
use crate::schema::memory::{ALLOCATIONS, MEMORY_FAILURES, MEMORY_STATS};
use gpuwhy_model::{Allocation, MemoryFailure, MemoryUse};
use rusqlite::Connection;

/// The row of a free takes the place of that of its allocation; so does one that takes a free back.
pub(super) fn allocations(
    db: &Connection,
    allocations: &[Allocation],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if allocations.is_empty() {
        return Ok(());
    }
    let mut replace = db.prepare_cached(&ALLOCATIONS.replace_sql())?;
    for piece in allocations {
        put!(
            replace,
            ALLOCATIONS,
            "pid" = piece.pid,
            "address" = hex(piece.address),
            "bytes" = piece.bytes as i64,
            "allocated_ns" = piece.allocated_ns as i64,
            "freed_ns" = number(piece.freed_ns),
            "tid" = piece.tid,
            "op" = ops.name_of(db, piece.op)?,
            "kind" = piece.kind.name(),
            "gpu" = piece.gpu,
            "stack_id" = piece.stack_id,
            "session_id" = session_id,
            "pool" = piece.pool.as_deref(),
        );
    }
    Ok(())
}

pub(super) fn usage(db: &Connection, usage: &[MemoryUse], session_id: i64) -> rusqlite::Result<()> {
    if usage.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &MEMORY_STATS)?;
    for sum in usage {
        put!(
            insert,
            MEMORY_STATS,
            "timestamp_ns" = sum.time_ns as i64,
            "pid" = sum.pid,
            "gpu" = sum.gpu,
            "kind" = sum.kind.name(),
            "live_bytes" = sum.live_bytes as i64,
            "peak_bytes" = sum.peak_bytes as i64,
            "live_count" = sum.live_count as i64,
            "allocated_bytes" = sum.allocated_bytes as i64,
            "freed_bytes" = sum.freed_bytes as i64,
            "failures" = sum.failures as i64,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn failures(
    db: &Connection,
    failures: &[MemoryFailure],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &MEMORY_FAILURES)?;
    for failure in failures {
        put!(
            insert,
            MEMORY_FAILURES,
            "timestamp_ns" = failure.time_ns as i64,
            "event" = "alloc_failed",
            "op" = ops.name_of(db, failure.op)?,
            "pid" = failure.pid,
            "tid" = failure.tid,
            "bytes" = failure.bytes as i64,
            "ret" = failure.ret,
            "gpu" = failure.gpu,
            "stack_id" = failure.stack_id,
            "live_bytes" = failure.live_bytes as i64,
            "holders" = serde_json::to_string(&failure.holders).ok(),
            "session_id" = session_id,
        );
    }
    Ok(())
}
