//! `since`: counts back from the newest event in the file, not from now, so that archived traces answer.

use crate::QueryError;
use gpuwhy_model::units::{duration, parse_duration};
use gpuwhy_store::{Limits, Reader, Span, Value};

/// The time from which on rows are wanted; None for all.
pub(crate) fn from_ns(reader: &Reader, since: Option<&str>) -> Result<Option<u64>, QueryError> {
    let Some(since) = since else { return Ok(None) };
    let back = parse_duration(since).map_err(QueryError::Usage)?;
    let Some(newest) = reader.newest_ns()? else { return Ok(None) };
    Ok(Some(newest.saturating_sub(back.as_nanos().min(u64::MAX.into()) as u64)))
}

/// The time that is asked about: all of the trace, or a part of it.
pub(crate) fn span(
    reader: &Reader,
    since: Option<&str>,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<Span, QueryError> {
    let Some(Span { start_ns, end_ns }) = reader.span()? else {
        return Err(QueryError::NoData("the trace is empty: trace while a process uses the GPU".into()));
    };
    in_order(from, to)?;
    let from = from_ns(reader, since)?.or(from);
    let start_ns = from.unwrap_or(start_ns).clamp(start_ns, end_ns.max(start_ns));
    Ok(Span { start_ns, end_ns: to.unwrap_or(end_ns).clamp(start_ns, end_ns.max(start_ns)) })
}

pub(crate) fn in_order(from: Option<u64>, to: Option<u64>) -> Result<(), QueryError> {
    match from.zip(to).is_some_and(|(from, to)| from > to) {
        true => Err(QueryError::Usage("from_ns is after to_ns; swap them".into())),
        false => Ok(()),
    }
}

/// SQLite's numbers are signed.
pub(crate) fn stored(ns: u64) -> u64 {
    ns.min(i64::MAX as u64)
}

/// The earliest begin of a window of sums that reaches into the time from here on.
pub(crate) fn first_window(from_ns: u64) -> u64 {
    const WINDOW_NS: u64 = 500_000_000;
    from_ns.saturating_sub(WINDOW_NS - 1)
}

/// What a filter selects, for a sentence that says there is nothing.
pub(crate) fn selection(op: Option<&str>, pid: Option<u32>, since: Option<&str>) -> String {
    let mut words = String::new();
    if let Some(op) = op {
        words += &format!(" of operation {op}");
    }
    if let Some(pid) = pid {
        words += &format!(" of process {pid}");
    }
    if let Some(since) = since {
        words += &format!(" in the last {since}");
    }
    words
}

/// The refusal where a selection is empty: what there is instead.
pub(crate) fn nothing(reader: &Reader, what: &str, selection: &str) -> Result<QueryError, QueryError> {
    let called = "SELECT op FROM call_stats GROUP BY op ORDER BY sum(count) DESC, op LIMIT 8";
    let called: Vec<String> =
        reader.select(called, &[], &Limits::default())?.rows.iter().flatten().map(name).collect();
    let hint = match called.is_empty() {
        true => {
            let length =
                reader.span()?.map_or_else(String::new, |span| format!(" in its {}", duration(span.ns())));
            format!("no traced process gave the GPU work{length}: trace while one does")
        }
        false => format!("it has calls of {}", called.join(", ")),
    };
    Ok(QueryError::NoData(format!("the trace has no {what}{selection}; {hint}")))
}

fn name(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}
