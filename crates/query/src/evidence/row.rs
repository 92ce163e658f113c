//! Rows of our own statements, read by place.

use crate::QueryError;
use gpuwhy_store::{Limits, Reader, Value};
use std::borrow::Cow;
use std::time::Duration;

/// Our own statements are sums, or bounded by what they select.
fn limits() -> Limits {
    Limits { rows: 2_000_000, time: Duration::from_secs(120), bytes: 1 << 30 }
}

pub(super) struct Row<'a>(Cow<'a, [Value]>);

/// All rows of a statement; its place holders are the time from and to.
pub(super) fn rows(reader: &Reader, sql: &str, times: [u64; 2]) -> Result<Vec<Row<'static>>, QueryError> {
    let answer = reader.select(sql, &values(sql, times), &limits())?;
    Ok(answer.rows.into_iter().map(|row| Row(Cow::Owned(row))).collect())
}

/// The same, one at a time.
pub(super) fn each_row(
    reader: &Reader,
    sql: &str,
    times: [u64; 2],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), QueryError> {
    Ok(reader.select_each(sql, &values(sql, times), |row| visit(&Row(Cow::Borrowed(row))))?)
}

fn values(sql: &str, times: [u64; 2]) -> Vec<Value> {
    // Numbered, so that each may come several times or not at all.
    let used = 2 * usize::from(sql.contains("?2"));
    times.iter().take(used).map(|ns| Value::Integer((*ns).min(i64::MAX as u64) as i64)).collect()
}

impl Row<'_> {
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
