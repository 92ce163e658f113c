//! The probes: attached, degraded or refused, and what they cost.

use super::Writer;
use super::row::{insert_into, known, nonzero, put};
use crate::StoreError;
use crate::schema::host::{PROBES, WATCH_CHANGES, WATCH_COSTS, WATCH_SLICES};
use gpuwhy_model::{ProbeStatus, Slice, TracingCost};
use rusqlite::{Connection, params};

/// What a probe has cost so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeCost {
    pub probe: String,
    pub target: String,
    pub file: String,
    pub hits: u64,
    pub cost_ns: u64,
}

impl Writer {
    /// What is known of the probes: attached, degraded or refused.
    pub fn write_probes(&mut self, probes: &[ProbeStatus]) -> Result<(), StoreError> {
        self.inside(|writer| {
            let mut row = writer.db.prepare_cached(&PROBES.upsert_sql())?;
            for p in probes {
                row.execute(params![
                    writer.session_id,
                    p.probe,
                    p.target,
                    p.file,
                    p.state.name(),
                    known(&p.flavour),
                    nonzero(p.since_ns),
                    known(&p.reason),
                    None::<i64>,
                    None::<i64>,
                ])?;
            }
            Ok(())
        })
    }

    /// What probes have cost so far, in place of what was written before.
    pub fn write_probe_costs(&mut self, costs: &[ProbeCost]) -> Result<(), StoreError> {
        self.inside(|writer| {
            let mut row = writer.db.prepare_cached(
                "UPDATE probes SET hits = ?, cost_ns = ? WHERE session_id = ? AND probe = ? AND target = ? AND file = ?",
            )?;
            for c in costs {
                row.execute(params![
                    c.hits as i64,
                    c.cost_ns as i64,
                    writer.session_id,
                    c.probe,
                    c.target,
                    c.file
                ])?;
            }
            Ok(())
        })
    }
}

/// Steps of the governor: `probes` has the latest state alone.
pub(super) fn changes(db: &Connection, changes: &[ProbeStatus], session_id: i64) -> rusqlite::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &WATCH_CHANGES)?;
    for change in changes {
        put!(
            insert,
            WATCH_CHANGES,
            "timestamp_ns" = change.since_ns as i64,
            "probe" = &change.probe,
            "target" = known(&change.target),
            "file" = known(&change.file),
            "state" = change.state.name(),
            "reason" = known(&change.reason),
            "session_id" = session_id,
        );
    }
    Ok(())
}

/// When frequent calls were watched.
pub(super) fn slices(db: &Connection, slices: &[Slice], session_id: i64) -> rusqlite::Result<()> {
    if slices.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &WATCH_SLICES)?;
    for slice in slices {
        put!(
            insert,
            WATCH_SLICES,
            "start_ns" = slice.span.start_ns as i64,
            "end_ns" = slice.span.end_ns as i64,
            "class" = slice.class.name(),
            "pid" = slice.pid,
            "slowed_ns" = nonzero(slice.slowed_ns),
            "session_id" = session_id,
        );
    }
    Ok(())
}

/// What being watched cost.
pub(super) fn tracing_costs(
    db: &Connection,
    tracing_costs: &[TracingCost],
    session_id: i64,
) -> rusqlite::Result<()> {
    if tracing_costs.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &WATCH_COSTS)?;
    for cost in tracing_costs {
        put!(
            insert,
            WATCH_COSTS,
            "window_start_ns" = cost.window_start_ns as i64,
            "window_ns" = cost.window_ns as i64,
            "pid" = cost.pid,
            "calls" = cost.calls as i64,
            "cost_ns" = cost.cost_ns as i64,
            "worst_thread_pct" = cost.worst_thread_pct,
            "level" = cost.level.name(),
            "session_id" = session_id,
        );
    }
    Ok(())
}
