//! Stacks of kept calls, as addresses and as functions and lines.

use super::row::{handle, insert_into, known, put};
use crate::schema::code::{FRAMES, STACKS, WAIT_SAMPLES};
use gpuwhy_model::{Stack, Waiting};
use rusqlite::{Connection, Statement, params};
use std::fmt::Write as _;

pub(super) fn stacks(db: &Connection, stacks: &[Stack]) -> rusqlite::Result<()> {
    if stacks.is_empty() {
        return Ok(());
    }
    let mut insert = db.prepare_cached(&STACKS.insert_sql("INSERT OR IGNORE", 1))?;
    let mut frame = db.prepare_cached(&FRAMES.insert_sql("INSERT OR IGNORE", 1))?;
    for stack in stacks {
        let mut addresses = String::from("[");
        for (depth, address) in stack.addresses.iter().enumerate() {
            let comma = if depth == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(addresses, "{comma}\"{address:#x}\"");
        }
        addresses.push(']');
        insert.execute(params![stack.stack_id, stack.pid, addresses, stack.complete])?;
        put_frames(&mut frame, stack)?;
    }
    Ok(())
}

pub(super) fn waiting(db: &Connection, waits: &[Waiting], session_id: i64) -> rusqlite::Result<()> {
    if waits.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &WAIT_SAMPLES)?;
    for wait in waits {
        put!(
            insert,
            WAIT_SAMPLES,
            "timestamp_ns" = wait.time_ns as i64,
            "pid" = wait.pid,
            "tid" = wait.tid,
            "since_ns" = wait.since_ns as i64,
            "reason" = wait.reason.name(),
            "stack_id" = wait.stack_id,
            "session_id" = session_id,
        );
    }
    Ok(())
}

fn put_frames(insert: &mut Statement<'_>, stack: &Stack) -> rusqlite::Result<()> {
    for (depth, frame) in stack.frames.iter().enumerate() {
        put!(
            insert,
            FRAMES,
            "stack_id" = stack.stack_id,
            "depth" = depth as i64,
            "kind" = frame.kind.name(),
            "function" = frame.function.as_deref(),
            "file" = frame.file.as_deref(),
            "line" = frame.line,
            "module" = known(&frame.module),
            "address" = handle(frame.address),
            "inlined" = frame.inlined,
        );
    }
    Ok(())
}
