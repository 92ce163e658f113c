//! Exact sums of calls and billed time, window by window.

use super::Ops;
use super::row::{bind_reasons, insert_into, known, nonzero, put};
use crate::CallStats;
use crate::schema::sums::{BLAME, CALL_STATS};
use crate::stats::hist_json;
use gpuwhy_model::{BlameRow, CallWindow, OpId};
use rusqlite::{Connection, Statement, params};
use std::collections::BTreeMap;

/// The threads of a process are summed, and so are the directions of its copies: what is stored is by process.
pub(super) fn windows(
    db: &Connection,
    windows: &[CallWindow],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if windows.is_empty() {
        return Ok(());
    }
    let mut sums: BTreeMap<(u64, u32, OpId), CallStats> = BTreeMap::new();
    for window in windows {
        let stats = CallStats::of(window, ops.name(db, window.op)?);
        sums.entry((window.window_start_ns, window.pid, window.op))
            .and_modify(|sum| sum.merge(&stats))
            .or_insert(stats);
    }
    let mut insert = db.prepare_cached(&CALL_STATS.insert_sql("INSERT OR IGNORE", 1))?;
    for sum in sums.values() {
        if put_stats(&mut insert, sum, session_id)? == 0 {
            complete(db, sum, session_id)?;
        }
    }
    Ok(())
}

/// Where the window came in parts.
fn complete(db: &Connection, stats: &CallStats, session_id: i64) -> rusqlite::Result<()> {
    let mut find =
        db.prepare_cached("SELECT * FROM call_stats WHERE window_start_ns = ? AND pid = ? AND op = ?")?;
    let key = params![stats.window_start_ns as i64, stats.pid, stats.op];
    let mut sum = find.query_row(key, CallStats::from_row)?;
    sum.merge(stats);
    let mut replace = db.prepare_cached(&CALL_STATS.insert_sql("REPLACE", 1))?;
    put_stats(&mut replace, &sum, session_id).map(drop)
}

/// Returns how many rows there are now that were not there before.
fn put_stats(row: &mut Statement<'_>, stats: &CallStats, session_id: i64) -> rusqlite::Result<usize> {
    bind_reasons(row, const { CALL_STATS.reasons() }, &stats.blame)?;
    Ok(put!(
        row,
        CALL_STATS,
        "window_start_ns" = stats.window_start_ns as i64,
        "window_ns" = stats.window_ns as i64,
        "pid" = stats.pid,
        "op" = &stats.op,
        "count" = stats.count as i64,
        "sum_ns" = stats.sum_ns as i64,
        "min_ns" = stats.min_ns as i64,
        "max_ns" = stats.max_ns as i64,
        "hist" = hist_json(&stats.hist),
        "errors" = stats.errors as i64,
        "kept" = stats.kept as i64,
        "bytes" = stats.bytes as i64,
        "oncpu_ns" = stats.blame.oncpu_ns as i64,
        "runq_ns" = stats.blame.runq_ns as i64,
        "blocked_ns" = stats.blame.blocked_total_ns() as i64,
        "session_id" = session_id,
    ))
}

pub(super) fn blame(
    db: &Connection,
    rows: &[BlameRow],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &BLAME)?;
    for row in rows {
        insert.execute(params![
            row.window_start_ns as i64,
            row.pid,
            row.tid,
            ops.name_of(db, row.op)?,
            row.cause.name(),
            nonzero(row.by_pid.into()),
            nonzero(row.by_tid.into()),
            known(&row.by_comm),
            row.ns as i64,
            row.count as i64,
            session_id,
            nonzero(row.by_cgroup_id),
        ])?;
    }
    Ok(())
}
