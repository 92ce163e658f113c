//! Exact sums of calls and billed time, window by window.

use super::Ops;
use super::row::{cached, known, nonzero};
use crate::CallStats;
use gpuwhy_model::{BlameRow, CallWindow, OpId};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// The threads of a process are summed, and so are the directions of its copies: what is stored is by process.
pub(super) fn windows(
    db: &Connection,
    windows: &[CallWindow],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    let mut sums: BTreeMap<(u64, u32, OpId), CallStats> = BTreeMap::new();
    for window in windows {
        let stats = CallStats::of(window, ops.name(db, window.op)?);
        sums.entry((window.window_start_ns, window.pid, window.op))
            .and_modify(|sum| sum.merge(&stats))
            .or_insert(stats);
    }
    for sum in sums.values() {
        put(db, sum, session_id)?;
    }
    Ok(())
}

fn put(db: &Connection, stats: &CallStats, session_id: i64) -> rusqlite::Result<()> {
    let mut insert = cached(db, "call_stats", |table| table.insert_sql("INSERT OR IGNORE", 1))?;
    stats.bind(&mut insert, session_id)?;
    if insert.raw_execute()? > 0 {
        return Ok(());
    }
    // The window came in parts: what is there is completed.
    let mut find = db.prepare_cached(&format!(
        "SELECT {} FROM call_stats WHERE window_start_ns = ? AND pid = ? AND op = ?",
        CallStats::COLUMNS
    ))?;
    let key = params![stats.window_start_ns as i64, stats.pid, stats.op];
    let mut sum = find.query_row(key, CallStats::from_row)?;
    sum.merge(stats);
    let mut replace = cached(db, "call_stats", |table| table.insert_sql("REPLACE", 1))?;
    sum.bind(&mut replace, session_id)?;
    replace.raw_execute().map(drop)
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
    let mut insert = cached(db, "blame", |table| table.insert_sql("INSERT", 1))?;
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
