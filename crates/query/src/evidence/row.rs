//! Rows of our own statements, read by place.

use crate::QueryError;
use gpuwhy_store::{Limits, Reader, Value};
use std::time::Duration;

/// Our own statements are sums, or bounded by what they select.
fn limits() -> Limits {
    Limits { rows: 2_000_000, time: Duration::from_secs(120), bytes: 1 << 30 }
}

pub(super) struct Row(Vec<Value>);

/// All rows of a statement; its place holders are the time from and to.
pub(super) fn rows(reader: &Reader, sql: &str, times: [u64; 2]) -> Result<Vec<Row>, QueryError> {
    let values = times.map(|ns| Value::Integer(ns.min(i64::MAX as u64) as i64));
    // Numbered, so that each may come several times or not at all.
    let used = 2 * usize::from(sql.contains("?2"));
    Ok(reader.select(sql, &values[..used], &limits())?.rows.into_iter().map(Row).collect())
}

impl Row {
    /// NULL is zero.
    pub(super) fn number(&self, at: usize) -> u64 {
        self.maybe(at).unwrap_or(0)
    }

    pub(super) fn maybe(&self, at: usize) -> Option<u64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number as u64),
            Some(Value::Real(number)) => Some(number.max(0.0) as u64),
            _ => None,
        }
    }

    pub(super) fn id(&self, at: usize) -> u32 {
        self.number(at) as u32
    }

    pub(super) fn signed(&self, at: usize) -> Option<i64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn real(&self, at: usize) -> Option<f64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(Value::Real(number)) => Some(*number),
            _ => None,
        }
    }

    /// NULL is empty.
    pub(super) fn text(&self, at: usize) -> String {
        self.maybe_text(at).unwrap_or_default()
    }

    pub(super) fn maybe_text(&self, at: usize) -> Option<String> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }
}
