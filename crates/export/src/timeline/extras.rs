//! What a timeline shows beside the events: findings, how busy streams were, calls that hang, and where it all is from.

use super::tracks::Place;
use super::walk::{Piece, Walk};
use super::{Arg, Sink};
use crate::ExportError;
use crate::about::About;
use crate::text::{VALUE, clean, name};
use gpuwhy_model::Finding;
use gpuwhy_model::units::duration;
use std::borrow::Cow;

/// An instant at the beginning, with the origin of the trace and what it does not cover.
pub(super) fn about<S: Sink>(walk: &mut Walk<'_, S>, about: &About) -> Result<(), ExportError> {
    let lines = about.lines();
    let args: Vec<(&str, Arg<'_>)> = lines
        .iter()
        .map(|(key, text)| (key.as_str(), Arg::Text(clean(Cow::Borrowed(text), VALUE))))
        .collect();
    let piece = Piece { start_ns: about.start_ns, name: "trace", category: "about", ..Piece::default() };
    walk.put(&Place::About, &piece, &args)
}

pub(super) fn findings<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let mut findings: Vec<&Finding> = walk.source.findings.iter().collect();
    findings.sort_by_key(|finding| (finding.window.start_ns, std::cmp::Reverse(finding.window.end_ns)));
    for finding in findings {
        let text = |text: &str| Arg::Text(clean(Cow::Owned(text.to_string()), VALUE));
        let causes: Vec<String> = finding
            .causes
            .iter()
            .map(|cause| format!("{} {:.0}% ({:.1} ms)", cause.class.name(), cause.share_pct, cause.ms))
            .collect();
        let mut args = vec![
            ("id", text(&finding.id)),
            ("severity", text(finding.severity.name())),
            ("rule", text(&finding.rule)),
            ("causes", text(&causes.join(", "))),
            ("explained_pct", Arg::Real(finding.explained_pct)),
            ("excess_ms", Arg::Real(finding.impact.excess_ms)),
            ("wall_pct", Arg::Real(finding.impact.wall_pct)),
        ];
        args.extend(finding.by_design.as_deref().map(|how| ("by_design", text(how))));
        args.extend(finding.op.as_deref().map(|op| ("op", text(op))));
        args.extend(finding.pid.map(|pid| ("pid", Arg::Integer(pid.into()))));
        args.extend(finding.place.python.first().map(|line| ("python", text(line))));
        args.extend(finding.place.native.first().map(|line| ("native", text(line))));
        args.extend(finding.fixes.first().map(|fix| ("fix", text(fix))));
        let title = name(&finding.title);
        let piece = Piece {
            start_ns: finding.window.start_ns,
            end_ns: Some(finding.window.end_ns.max(finding.window.start_ns)),
            name: &title,
            category: "finding",
            ..Piece::default()
        };
        walk.put(&Place::Findings, &piece, &args)?;
    }
    Ok(())
}

/// A slice for each window of a stream.
pub(super) fn streams<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let (clause, values) = source.filter.clause("window_start_ns");
    let sql = format!(
        "SELECT window_start_ns, window_ns, pid, stream, busy_lower_ns, busy_upper_ns, submitted, launches FROM gpu_time{clause} \
         ORDER BY window_start_ns"
    );
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let number = |at: usize| record.integer(at).unwrap_or(0).max(0);
        let (start_ns, lower, upper) = (number(0) as u64, number(4), number(5));
        let name = format!("busy {} to {}", duration(lower as u64), duration(upper as u64));
        let stream = record.text(3).unwrap_or_default();
        let args = ["busy_lower_ns", "busy_upper_ns", "submitted", "launches"];
        let args: Vec<(&str, Arg<'_>)> =
            args.into_iter().zip(4..).map(|(name, at)| (name, Arg::Integer(number(at)))).collect();
        let piece = Piece {
            start_ns,
            end_ns: Some(start_ns.saturating_add(number(1) as u64)),
            name: &name,
            category: "gpu_time",
            ..Piece::default()
        };
        walk.put(&Place::Stream(number(2) as u32, stream.into_owned()), &piece, &args)
    })
}

/// Where Python threads were met between calls: instants with a stack.
pub(super) fn waiting<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let (clause, values) = source.filter.clause("timestamp_ns");
    let sql = format!("SELECT timestamp_ns, pid, tid, reason, stack_id, since_ns FROM wait_samples{clause}");
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let number = |at: usize| record.integer(at).unwrap_or(0).max(0);
        let title = match &*record.text(3).unwrap_or_default() {
            "on_cpu" => "computes".to_string(),
            "runnable" => "waits: its CPU".to_string(),
            reason => format!("waits: {reason}"),
        };
        let args = [("waiting_ns", Arg::Integer(number(0) - number(5)))];
        let piece = Piece {
            start_ns: number(0) as u64,
            name: &name(&title),
            category: "wait_sample",
            stack_id: record.integer(4),
            ..Piece::default()
        };
        walk.put(&Place::Thread(number(1) as u32, number(2) as u32), &piece, &args)
    })
}

/// Where threads ran: instants with a stack.
pub(super) fn running<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let (clause, values) = source.filter.clause("timestamp_ns");
    let sql =
        format!("SELECT timestamp_ns, pid, tid, kernel, gc, stack_id, weight_ns FROM cpu_samples{clause}");
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let number = |at: usize| record.integer(at).unwrap_or(0).max(0);
        let title = match (number(3), number(4)) {
            (_, 1) => "runs: garbage collection",
            (1, _) => "runs: kernel",
            _ => "runs",
        };
        let piece = Piece {
            start_ns: number(0) as u64,
            name: &name(title),
            category: "cpu_sample",
            stack_id: record.integer(5),
            ..Piece::default()
        };
        let args = [("weight_ns", Arg::Integer(number(6)))];
        walk.put(&Place::Thread(number(1) as u32, number(2) as u32), &piece, &args)
    })
}

/// Calls that were seen to last, until they ended or were last seen.
pub(super) fn in_flight<S: Sink>(walk: &mut Walk<'_, S>) -> Result<(), ExportError> {
    let source = walk.source;
    let (clause, values) = source.filter.clause("start_ns");
    let sql = format!(
        "SELECT start_ns, coalesce(ended_ns, seen_ns), pid, tid, op, ended_ns IS NULL, stack_id FROM calls_in_flight{clause} \
         ORDER BY start_ns, 2 DESC"
    );
    source.reader.stream::<ExportError>(&sql, &values, |record| {
        let number = |at: usize| record.integer(at).unwrap_or(0).max(0);
        let op = record.text(4).unwrap_or_default();
        let start_ns = number(0) as u64;
        let args = [("tid", Arg::Integer(number(3))), ("lasts", Arg::Integer(number(5)))];
        let piece = Piece {
            start_ns,
            end_ns: Some((number(1) as u64).max(start_ns)),
            name: &name(&op),
            category: "in_flight",
            stack_id: record.integer(6),
            ..Piece::default()
        };
        walk.put(&Place::InFlight(number(2) as u32), &piece, &args)
    })
}
