//! Kept calls into `calls`, fast: many rows a statement, and only the values that differ from those of the
//! statement before are bound anew.

use super::{Connection, Ops, nonzero};
use crate::schema::{CALLS, kept_number};
use gpuwhy_model::{Call, Reason, Via};
use rusqlite::Statement;
use rusqlite::types::Null;

/// Measured with `examples/insert_rate.rs`: more rows a statement are hardly faster, fewer are slower.
const ROWS: usize = 32;
const COLUMNS: usize = CALLS.columns.len();

type Row = [Option<i64>; COLUMNS];

pub(super) fn insert(
    db: &Connection,
    calls: &[Call],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    // In order of time, so that the index grows at its end.
    let mut order: Vec<&Call> = calls.iter().collect();
    if !order.is_sorted_by_key(|call| call.start_ns) {
        order.sort_unstable_by_key(|call| call.start_ns);
    }
    let (wide, rest) = order.as_chunks::<ROWS>();
    if !wide.is_empty() {
        let mut statement = db.prepare_cached(&CALLS.insert_sql("INSERT", ROWS))?;
        let mut bound = vec![[None; COLUMNS]; ROWS];
        for calls in wide {
            for (place, call) in calls.iter().enumerate() {
                let row = row(call, ops.file_id(db, call.op)?, session_id);
                bind(&mut statement, place * COLUMNS, &row, &mut bound[place])?;
            }
            statement.raw_execute()?;
        }
    }
    if !rest.is_empty() {
        let mut statement = db.prepare_cached(&CALLS.insert_sql("INSERT", 1))?;
        let mut bound = [None; COLUMNS];
        for call in rest {
            let row = row(call, ops.file_id(db, call.op)?, session_id);
            bind(&mut statement, 0, &row, &mut bound)?;
            statement.raw_execute()?;
        }
    }
    Ok(())
}

fn bind(statement: &mut Statement<'_>, offset: usize, row: &Row, bound: &mut Row) -> rusqlite::Result<()> {
    for (column, (value, before)) in row.iter().zip(bound).enumerate() {
        if value != before {
            match value {
                Some(number) => statement.raw_bind_parameter(offset + column + 1, *number)?,
                None => statement.raw_bind_parameter(offset + column + 1, Null)?,
            }
            *before = *value;
        }
    }
    Ok(())
}

/// As the views spell them out.
fn via_number(via: Via) -> i64 {
    match via {
        Via::Runtime => 1,
        Via::Direct => 2,
    }
}

/// Zeros stay NULL, which costs no room.
fn row(call: &Call, op_id: i64, session_id: i64) -> Row {
    let mut row: Row = [None; COLUMNS];
    macro_rules! set {
        ($($column:literal = $value:expr;)*) => { $(row[const { CALLS.place($column) }] = $value;)* };
    }
    let blocked = |reason: Reason| nonzero(call.blame.blocked_ns[reason as usize]);
    set! {
        "timestamp_ns" = Some(call.start_ns as i64);
        "duration_ns" = nonzero(call.duration_ns);
        "op_id" = Some(op_id);
        "pid" = nonzero(call.pid.into());
        "tid" = nonzero(call.tid.into());
        "cgroup_id" = nonzero(call.cgroup_id);
        "kept" = Some(kept_number(call.kept));
        "sample_weight" = nonzero(call.sample_weight.into());
        "ret" = Some(i64::from(call.ret)).filter(|ret| *ret != 0);
        "bytes" = nonzero(call.bytes);
        "stream" = nonzero(call.stream);
        "handle" = nonzero(call.handle);
        "caller" = nonzero(call.caller);
        "via" = call.via.map(via_number);
        "stack_id" = call.stack_id;
        "oncpu_ns" = nonzero(call.blame.oncpu_ns);
        "runq_ns" = nonzero(call.blame.runq_ns);
        "futex_ns" = blocked(Reason::Futex);
        "block_io_ns" = blocked(Reason::BlockIo);
        "file_ns" = blocked(Reason::File);
        "socket_ns" = blocked(Reason::Socket);
        "poll_ns" = blocked(Reason::Poll);
        "ioctl_ns" = blocked(Reason::Ioctl);
        "fault_ns" = blocked(Reason::Fault);
        "sleep_ns" = blocked(Reason::Sleep);
        "other_ns" = blocked(Reason::Other);
        "session_id" = Some(session_id);
    }
    // The zeros of a launch are told from no launch at all.
    if let Some(launch) = &call.launch {
        set! {
            "grid_x" = Some(launch.grid[0].into());
            "grid_y" = Some(launch.grid[1].into());
            "grid_z" = Some(launch.grid[2].into());
            "block_x" = Some(launch.block[0].into());
            "block_y" = Some(launch.block[1].into());
            "block_z" = Some(launch.block[2].into());
            "shared_bytes" = Some(launch.shared_bytes.into());
        }
    }
    row
}
