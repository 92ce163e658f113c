//! The probes: attached, degraded or refused, and what they cost.

use super::Writer;
use super::row::{cached, known, nonzero};
use crate::{StoreError, schema};
use gpuwhy_model::ProbeStatus;
use rusqlite::params;

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
            let mut row = cached(&writer.db, "probes", schema::Table::upsert_sql)?;
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
