//! Kept calls into `calls`, fast: many rows a statement, and only the values that differ from those of the
//! statement before are bound anew.

use super::{Libraries, Ops};
use crate::schema::calls::{CALLS, direction_number, kept_number};
use gpuwhy_model::{Call, Kept, Via};
use rusqlite::types::Null;
use rusqlite::{Connection, Statement};

/// Measured with `examples/insert_rate.rs`: more rows a statement are hardly faster, fewer are slower.
const ROWS: usize = 32;
const COLUMNS: usize = CALLS.columns.len();

/// A row as it is bound.
#[derive(Clone, Copy)]
struct Row {
    values: [i64; COLUMNS],
    /// A bit for each column that is not NULL.
    present: u64,
}

impl Row {
    /// Zeros stay NULL, which costs no room.
    fn set(&mut self, place: usize, value: i64) {
        self.values[place] = value;
        self.present |= u64::from(value != 0) << place;
    }

    /// Where a zero is told from nothing.
    fn set_present(&mut self, place: usize, value: i64) {
        self.values[place] = value;
        self.present |= 1 << place;
    }
}

const EMPTY: Row = Row { values: [0; COLUMNS], present: 0 };
const _: () = assert!(COLUMNS <= u64::BITS as usize, "a bit for each column");

pub(super) fn insert(
    db: &Connection,
    calls: &[Call],
    ops: &mut Ops,
    libraries: &Libraries,
    session_id: i64,
) -> rusqlite::Result<()> {
    // In order of time, so that the index grows at its end. Sorted by themselves, the times stay in the CPU's cache.
    let mut order: Vec<(u64, usize)> = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.kept != Kept::State)
        .map(|(place, call)| (call.start_ns, place))
        .collect();
    if !order.is_sorted() {
        order.sort_unstable();
    }
    let (wide, rest) = order.as_chunks::<ROWS>();
    if !wide.is_empty() {
        let mut statement = db.prepare_cached(&CALLS.insert_sql("INSERT", ROWS))?;
        let mut bound = [EMPTY; ROWS];
        for chunk in wide {
            for (place, (_, number)) in chunk.iter().enumerate() {
                let call = &calls[*number];
                let row = row(call, ops.file_id(db, call.op)?, libraries, session_id);
                bind(&mut statement, place * COLUMNS, &row, &mut bound[place])?;
            }
            statement.raw_execute()?;
        }
    }
    if !rest.is_empty() {
        let mut statement = db.prepare_cached(&CALLS.insert_sql("INSERT", 1))?;
        let mut bound = EMPTY;
        for (_, number) in rest {
            let call = &calls[*number];
            let row = row(call, ops.file_id(db, call.op)?, libraries, session_id);
            bind(&mut statement, 0, &row, &mut bound)?;
            statement.raw_execute()?;
        }
    }
    Ok(())
}

fn bind(statement: &mut Statement<'_>, offset: usize, row: &Row, bound: &mut Row) -> rusqlite::Result<()> {
    let mut changed = row.present ^ bound.present;
    for (column, (value, before)) in row.values.iter().zip(&bound.values).enumerate() {
        changed |= u64::from(value != before) << column;
    }
    while changed != 0 {
        let column = changed.trailing_zeros() as usize;
        changed &= changed - 1;
        match row.present >> column & 1 {
            0 => statement.raw_bind_parameter(offset + column + 1, Null)?,
            _ => statement.raw_bind_parameter(offset + column + 1, row.values[column])?,
        }
    }
    *bound = *row;
    Ok(())
}

/// As the views spell them out.
fn via_number(via: Via) -> i64 {
    match via {
        Via::Runtime => 1,
        Via::Direct => 2,
    }
}

fn row(call: &Call, op_id: i64, libraries: &Libraries, session_id: i64) -> Row {
    let mut row = EMPTY;
    macro_rules! set {
        ($($column:literal = $value:expr;)*) => { $(
            row.set(const { CALLS.place($column) }, $value);
        )* };
    }
    macro_rules! set_present {
        ($($column:literal = $value:expr;)*) => { $(
            row.set_present(const { CALLS.place($column) }, $value);
        )* };
    }
    set_present! { "timestamp_ns" = call.start_ns as i64; }
    set! {
        "duration_ns" = call.duration_ns as i64;
        "op_id" = op_id;
        "pid" = call.pid.into();
        "tid" = call.tid.into();
        "cgroup_id" = call.cgroup_id as i64;
        "kept" = kept_number(call.kept).unwrap_or(0);
        "sample_weight" = call.sample_weight.into();
        "ret" = call.ret.into();
        "bytes" = call.bytes as i64;
        "stream" = call.stream as i64;
        "handle" = call.handle as i64;
        "caller" = call.caller as i64;
        "via" = call.via.map_or(0, via_number);
        "oncpu_ns" = call.blame.oncpu_ns as i64;
        "runq_ns" = call.blame.runq_ns as i64;
        "session_id" = session_id;
        "aux" = call.aux as i64;
        "direction" = call.direction.map_or(0, direction_number);
        "library_id" = libraries.file_id(call.library).unwrap_or(0);
        "first" = call.first.into();
    }
    for (place, ns) in const { CALLS.reasons() }.into_iter().zip(call.blame.blocked_ns) {
        row.set(place, ns as i64);
    }
    if let Some(stack_id) = call.stack_id {
        set_present! { "stack_id" = stack_id; }
    }
    if let Some(device) = call.device {
        set_present! { "device" = device.into(); }
    }
    if let Some(launch) = &call.launch {
        set_present! {
            "grid_x" = launch.grid[0].into();
            "grid_y" = launch.grid[1].into();
            "grid_z" = launch.grid[2].into();
            "block_x" = launch.block[0].into();
            "block_y" = launch.block[1].into();
            "block_z" = launch.block[2].into();
            "shared_bytes" = launch.shared_bytes.into();
        }
    }
    row
}
