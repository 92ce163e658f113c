//! Rows of our own statements, read by place.

use crate::QueryError;
use gpuwhy_store::{Limits, Reader, Value};
use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

/// Our own statements are sums, or bounded by what they select.
fn limits() -> Limits {
    Limits { rows: 2_000_000, time: Duration::from_secs(120), bytes: 2 << 30, ..Limits::default() }
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

/// How a table is named in a statement about a time: by its index on time, unless most of its rows are wanted. Then an index
/// leads astray.
pub(crate) fn table_for(reader: &Reader, times: [u64; 2], table: &str) -> Result<String, QueryError> {
    let is_most = reader.span()?.is_some_and(|all| times[1] - times[0] > all.ns() / 3);
    Ok(if is_most { format!("{table} NOT INDEXED") } else { table.into() })
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
    pub(crate) fn to_owned(&self) -> Row<'static> {
        Row(Cow::Owned(self.0.to_vec()))
    }

    /// Of the columns from there on.
    pub(crate) fn hash_from(&self, at: usize, seed: &impl BuildHasher) -> u64 {
        let mut hasher = seed.build_hasher();
        for value in self.0.iter().skip(at) {
            match value {
                Value::Integer(number) => number.hash(&mut hasher),
                Value::Text(text) => text.hash(&mut hasher),
                _ => 0_u8.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    pub(crate) fn is_same_from(&self, at: usize, other: &Row<'_>) -> bool {
        self.0.iter().skip(at).eq(other.0.iter().skip(at))
    }

    /// The columns from there on as text, to sort by.
    pub(crate) fn words_from(&self, at: usize) -> Vec<String> {
        self.0.iter().skip(at).map(|value| format!("{value:?}")).collect()
    }

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
        self.str(at).to_string()
    }

    /// The same without a copy.
    pub(crate) fn str(&self, at: usize) -> &str {
        match self.0.get(at) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn maybe_text(&self, at: usize) -> Option<String> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }
}
