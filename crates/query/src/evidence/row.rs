//! Rows of our own statements, read by place.

use crate::QueryError;
use gpuwhy_store::{Limits, Reader, Value};
use std::borrow::Cow;
use std::time::Duration;

/// Our own statements are sums, or bounded by what they select.
fn limits() -> Limits {
    Limits { rows: 2_000_000, time: Duration::from_secs(120), bytes: 1 << 30 }
}

pub(crate) struct Row<'a>(Cow<'a, [Value]>);

/// All rows of a statement; its place holders are the time from and to.
pub(crate) fn rows(reader: &Reader, sql: &str, times: [u64; 2]) -> Result<Vec<Row<'static>>, QueryError> {
    let answer = reader.select(sql, &values(sql, times), &limits())?;
    Ok(answer.rows.into_iter().map(|row| Row(Cow::Owned(row))).collect())
}

/// The same, one at a time.
pub(crate) fn each_row(
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

impl<'a> Row<'a> {
    pub(crate) fn of(values: &'a [Value]) -> Row<'a> {
        Row(Cow::Borrowed(values))
    }
}

impl Row<'_> {
    /// NULL is zero.
    pub(crate) fn number(&self, at: usize) -> u64 {
        self.maybe(at).unwrap_or(0)
    }

    pub(crate) fn maybe(&self, at: usize) -> Option<u64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number as u64),
            Some(Value::Real(number)) => Some(number.max(0.0) as u64),
            _ => None,
        }
    }

    pub(crate) fn id(&self, at: usize) -> u32 {
        self.number(at) as u32
    }

    pub(crate) fn signed(&self, at: usize) -> Option<i64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn real(&self, at: usize) -> Option<f64> {
        match self.0.get(at) {
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(Value::Real(number)) => Some(*number),
            _ => None,
        }
    }

    /// NULL is empty.
    pub(crate) fn text(&self, at: usize) -> String {
        self.maybe_text(at).unwrap_or_default()
    }

    pub(crate) fn maybe_text(&self, at: usize) -> Option<String> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }
}
