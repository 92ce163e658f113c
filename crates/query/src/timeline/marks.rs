//! Findings on the timeline: those the trace ended with, else computed where that takes a moment only.

use super::FindingMark;
use crate::QueryError;
use crate::evidence::row::rows;
use crate::explain::{ExplainRequest, explain};
use gpuwhy_model::{CauseShare, Severity, Span};
use gpuwhy_store::Reader;

/// `few`: there are few enough calls to look at all of them.
pub(super) fn read(
    reader: &Reader,
    pid: Option<u32>,
    span: Span,
    few: bool,
) -> Result<Vec<FindingMark>, QueryError> {
    let kept = stored(reader, span)?;
    let mut marks = match kept.is_empty() && few {
        true => computed(reader, span)?,
        false => kept,
    };
    marks.retain(|mark| pid.is_none() || mark.pid == pid);
    Ok(marks)
}

fn stored(reader: &Reader, span: Span) -> Result<Vec<FindingMark>, QueryError> {
    let sql = "SELECT id, severity, title, op, pid, start_ns, end_ns, causes, by_design FROM findings WHERE end_ns >= ?1 AND start_ns < ?2 \
               ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END, excess_ms DESC LIMIT 500";
    let marks = rows(reader, sql, [span.start_ns, span.end_ns.saturating_add(1)])?;
    Ok(marks
        .iter()
        .map(|row| {
            let causes: Vec<CauseShare> = serde_json::from_str(&row.text(7)).unwrap_or_default();
            let severity = serde_json::from_value(row.text(1).into()).unwrap_or(Severity::Low);
            FindingMark {
                id: row.text(0),
                severity,
                title: row.text(2),
                op: row.maybe_text(3),
                pid: row.maybe(4).map(|pid| pid as u32),
                start_ns: row.number(5),
                end_ns: row.number(6),
                class: causes.first().map(|cause| cause.class),
                by_design: row.maybe_text(8),
            }
        })
        .collect())
}

fn computed(reader: &Reader, span: Span) -> Result<Vec<FindingMark>, QueryError> {
    // Of all of the trace: a part of it has other phases and other shares, and findings would change their names by zooming.
    let request = ExplainRequest::default();
    let explained = match explain(reader, &request) {
        Ok(explained) => explained,
        Err(QueryError::NoData(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(explained
        .findings
        .into_iter()
        .filter(|finding| finding.window.end_ns >= span.start_ns && finding.window.start_ns <= span.end_ns)
        .map(|finding| FindingMark {
            class: finding.class(),
            id: finding.id,
            severity: finding.severity,
            title: finding.title,
            op: finding.op,
            pid: finding.pid,
            start_ns: finding.window.start_ns,
            end_ns: finding.window.end_ns,
            by_design: finding.by_design,
        })
        .collect())
}
