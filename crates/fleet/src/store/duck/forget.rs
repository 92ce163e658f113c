//! Forgetting: what is too old, and of what is too much the oldest. Room in the file is used again for new rows.

use super::Open;
use super::schema::AGING;
use crate::store::{Forgotten, Retention};
use duckdb::Connection;

/// Of the time that the rows span, so much is given up at once where they are too many.
const SLICE: i64 = 20;

pub(super) fn forget(open: &mut Open, now_ns: i64, keep: Retention) -> duckdb::Result<Forgotten> {
    let writer = &open.writer;
    let age_ns = i64::try_from(keep.age.as_nanos()).unwrap_or(i64::MAX);
    let mut rows = delete(writer, now_ns.saturating_sub(age_ns))?;
    if used(writer)? > keep.bytes {
        let (oldest, newest): (Option<i64>, Option<i64>) =
            writer.query_row("SELECT min(timestamp_ns), max(timestamp_ns) FROM events", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if let (Some(oldest), Some(newest)) = (oldest, newest) {
            rows += delete(writer, oldest + (newest - oldest) / SLICE + 1)?;
        }
    }
    if rows > 0 {
        // Only then is the room of what was deleted free.
        writer.execute_batch("CHECKPOINT")?;
    }
    Ok(Forgotten { rows })
}

fn delete(writer: &Connection, before_ns: i64) -> duckdb::Result<u64> {
    let mut rows = 0;
    for table in AGING {
        rows += writer.execute(&format!("DELETE FROM {table} WHERE timestamp_ns < ?"), [before_ns])? as u64;
    }
    Ok(rows)
}

/// Bytes of the file that hold something, and of the log beside it.
fn used(writer: &Connection) -> duckdb::Result<u64> {
    let (block, blocks): (i64, i64) = writer.query_row(
        "SELECT block_size, used_blocks FROM pragma_database_size() WHERE database_name = current_database()",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(u64::try_from(block.saturating_mul(blocks)).unwrap_or(0))
}
