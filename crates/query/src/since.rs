//! `since`: counts back from the newest event in the file, not from now, so that archived traces answer.

use crate::QueryError;
use gpuwhy_model::units::parse_duration;
use gpuwhy_store::Reader;

/// The time from which on rows are wanted; None for all.
pub(crate) fn from_ns(reader: &Reader, since: Option<&str>) -> Result<Option<u64>, QueryError> {
    let Some(since) = since else { return Ok(None) };
    let back = parse_duration(since).map_err(QueryError::Usage)?;
    let Some(newest) = reader.newest_ns()? else { return Ok(None) };
    Ok(Some(newest.saturating_sub(back.as_nanos().min(u64::MAX.into()) as u64)))
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
    let known: Vec<String> = reader.ops()?.into_iter().map(|op| op.name).take(8).collect();
    let hint = match known.is_empty() {
        true => "it holds no calls at all".to_string(),
        false => format!("it knows {}", known.join(", ")),
    };
    Ok(QueryError::NoData(format!("the trace has no {what}{selection}; {hint}")))
}
