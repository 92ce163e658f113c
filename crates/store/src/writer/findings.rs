//! What was concluded when a trace had ended.

use super::row::{insert_into, known, put};
use crate::file;
use crate::schema::code::FINDINGS;
use crate::{StoreError, lock};
use gpuwhy_model::Finding;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Replaces the findings of the file's last session.
pub fn write_findings(path: &Path, findings: &[Finding]) -> Result<(), StoreError> {
    let _lock = lock::Lock::take(path, None)?;
    let db = file::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    replace(&db, findings).map_err(|error| StoreError::at(path, error))
}

fn replace(db: &Connection, findings: &[Finding]) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    let session: i64 = tx.query_row("SELECT max(session_id) FROM sessions", [], |row| row.get(0))?;
    tx.execute("DELETE FROM findings WHERE session_id = ?", [session])?;
    {
        let mut row = insert_into(&tx, &FINDINGS)?;
        for finding in findings {
            let json = |value: serde_json::Result<String>| value.ok();
            put!(
                row,
                FINDINGS,
                "id" = &finding.id,
                "severity" = finding.severity.name(),
                "title" = &finding.title,
                "op" = &finding.op,
                "pid" = finding.pid,
                "process" = &finding.process,
                "cgroup" = &finding.cgroup,
                "rank" = finding.rank,
                "node" = &finding.node,
                "start_ns" = finding.window.start_ns as i64,
                "end_ns" = finding.window.end_ns as i64,
                "calls" = finding.impact.calls as i64,
                "slow_calls" = finding.impact.slow_calls as i64,
                "p50_us" = finding.impact.p50_us,
                "p99_us" = finding.impact.p99_us,
                "max_us" = finding.impact.max_us,
                "excess_ms" = finding.impact.excess_ms,
                "wall_pct" = finding.impact.wall_pct,
                "explained_pct" = finding.explained_pct,
                "causes" = json(serde_json::to_string(&finding.causes)),
                "where_json" = json(serde_json::to_string(&finding.place)),
                "fixes" = json(serde_json::to_string(&finding.fixes)),
                "sql" = known(&finding.sql),
                "session_id" = session,
                "rule" = known(&finding.rule),
                "refuted_by" = known(&finding.refuted_by),
                "steps" = (!finding.steps.is_empty())
                    .then(|| json(serde_json::to_string(&finding.steps)))
                    .flatten(),
                "by_design" = &finding.by_design,
            );
        }
    }
    tx.commit()
}
