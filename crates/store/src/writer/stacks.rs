//! Stacks of kept calls, as addresses and as functions and lines.

use super::Ops;
use super::row::{handle, insert_into, known, put};
use crate::schema::code::{CPU_SAMPLES, FRAMES, STACKS, WAIT_SAMPLES};
use gpuwhy_model::{BetweenCalls, CpuSample, Stack};
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

pub(super) fn between_calls(
    db: &Connection,
    seen: &[BetweenCalls],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if seen.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &WAIT_SAMPLES)?;
    for seen in seen {
        put!(
            insert,
            WAIT_SAMPLES,
            "timestamp_ns" = seen.time_ns as i64,
            "pid" = seen.pid,
            "tid" = seen.tid,
            "since_ns" = seen.since_ns as i64,
            "reason" = seen.part.name(),
            "stack_id" = seen.stack_id,
            "session_id" = session_id,
            "weight_ns" = seen.weight_ns as i64,
            "makes_calls" = seen.last_call_ns != 0,
            "op" = ops.name_of(db, seen.op)?,
        );
    }
    Ok(())
}

pub(super) fn cpu_samples(
    db: &Connection,
    samples: &[CpuSample],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &CPU_SAMPLES)?;
    for sample in samples {
        put!(
            insert,
            CPU_SAMPLES,
            "timestamp_ns" = sample.time_ns as i64,
            "pid" = sample.pid,
            "tid" = sample.tid,
            "cpu" = sample.cpu,
            "op" = ops.name_of(db, sample.op)?,
            "stack_id" = sample.stack_id,
            "weight_ns" = sample.weight_ns as i64,
            "kernel" = sample.in_kernel,
            "syscall" = sample.syscall,
            "gc" = sample.collecting,
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
