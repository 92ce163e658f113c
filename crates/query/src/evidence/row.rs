//! Rows of our own statements, read by place.

use crate::QueryError;
use gpuwhy_store::{Limits, Reader, Record, Value, ValueRef};
use std::borrow::Cow;
use std::time::Duration;

/// Our own statements are sums, or bounded by what they select.
fn limits() -> Limits {
    Limits { rows: 2_000_000, time: Duration::from_secs(120), bytes: 2 << 30, ..Limits::default() }
}

pub(crate) enum Row<'a> {
    Kept(Cow<'a, [Value]>),
    /// While it is looked at: of millions of rows nothing is copied.
    Read(Record<'a>),
}

/// All rows of a statement; its place holders are the time from and to.
pub(crate) fn rows(reader: &Reader, sql: &str, times: [u64; 2]) -> Result<Vec<Row<'static>>, QueryError> {
    let answer = reader.select(sql, &values(sql, times), &limits())?;
    Ok(answer.rows.into_iter().map(|row| Row::Kept(Cow::Owned(row))).collect())
}

/// The same, one at a time.
pub(crate) fn each_row(
    reader: &Reader,
    sql: &str,
    times: [u64; 2],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), QueryError> {
    reader.stream(sql, &values(sql, times), |record| {
        visit(&Row::Read(record));
        Ok(())
    })
}

/// How a table is named in a statement about a time: by its index on time, unless most of its rows are wanted. Then an index
/// leads astray.
pub(crate) fn table_for(reader: &Reader, times: [u64; 2], table: &str) -> Result<String, QueryError> {
    let is_most = reader.span()?.is_some_and(|all| times[1].saturating_sub(times[0]) > all.ns() / 3);
    Ok(if is_most { format!("{table} NOT INDEXED") } else { table.into() })
}

/// About how many rows of a table are of a time, as if they were spread evenly.
pub(crate) fn rows_within(reader: &Reader, times: [u64; 2], table: &str) -> Result<u64, QueryError> {
    let sql = format!("SELECT count(*) FROM {table}");
    let all = rows(reader, &sql, times)?.first().map_or(0, |row| row.number(0));
    let share =
        reader.span()?.map_or(1.0, |span| times[1].saturating_sub(times[0]) as f64 / span.ns().max(1) as f64);
    Ok((all as f64 * share.min(1.0)) as u64)
}

/// The condition for one row in so many, and for each that is to be looked at in any case. Which rows that are does not depend on
/// where they lie.
pub(crate) fn part_of_rows(time: &str, every: u64, always: &str) -> String {
    // Rows often come at even times; a remainder of this prime is as good as drawn.
    const SHUFFLE: u64 = 1_000_003;
    if every == 1 { "1".into() } else { format!("({always} OR {time} % {SHUFFLE} % {every} = 0)") }
}

fn values(sql: &str, times: [u64; 2]) -> Vec<Value> {
    // Numbered, so that each may come several times or not at all.
    let used = 2 * usize::from(sql.contains("?2"));
    times.iter().take(used).map(|ns| Value::Integer((*ns).min(i64::MAX as u64) as i64)).collect()
}

impl<'a> Row<'a> {
    pub(crate) fn of(values: &'a [Value]) -> Row<'a> {
        Row::Kept(Cow::Borrowed(values))
    }
}

impl Row<'_> {
    fn value(&self, at: usize) -> ValueRef<'_> {
        match self {
            Row::Kept(values) => values.get(at).map_or(ValueRef::Null, ValueRef::from),
            Row::Read(record) => record.value(at),
        }
    }

    /// NULL is zero.
    pub(crate) fn number(&self, at: usize) -> u64 {
        self.maybe(at).unwrap_or(0)
    }

    /// What is below zero is zero: times, counts and sizes are not, but a damaged file says anything.
    pub(crate) fn maybe(&self, at: usize) -> Option<u64> {
        match self.value(at) {
            ValueRef::Integer(number) => Some(number.max(0) as u64),
            ValueRef::Real(number) => Some(number.max(0.0) as u64),
            _ => None,
        }
    }

    pub(crate) fn id(&self, at: usize) -> u32 {
        self.number(at) as u32
    }

    pub(crate) fn signed(&self, at: usize) -> Option<i64> {
        match self.value(at) {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn real(&self, at: usize) -> Option<f64> {
        match self.value(at) {
            ValueRef::Integer(number) => Some(number as f64),
            ValueRef::Real(number) => Some(number),
            _ => None,
        }
    }

    /// NULL is empty.
    pub(crate) fn text(&self, at: usize) -> String {
        self.str(at).into_owned()
    }

    /// The same without a copy.
    pub(crate) fn str(&self, at: usize) -> Cow<'_, str> {
        match self.value(at) {
            ValueRef::Text(text) => String::from_utf8_lossy(text),
            _ => Cow::Borrowed(""),
        }
    }

    pub(crate) fn maybe_str(&self, at: usize) -> Option<Cow<'_, str>> {
        matches!(self.value(at), ValueRef::Text(_)).then(|| self.str(at))
    }

    pub(crate) fn maybe_text(&self, at: usize) -> Option<String> {
        self.maybe_str(at).map(Cow::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_zero_are_zero_unless_they_are_signed() {
        let values = [Value::Integer(-1), Value::Integer(i64::MIN), Value::Real(-2.5), Value::Integer(7)];
        let row = Row::of(&values);
        assert_eq!([0, 1, 2, 3].map(|at| row.number(at)), [0, 0, 0, 7]);
        assert_eq!((row.maybe(0), row.maybe(4), row.id(1)), (Some(0), None, 0));
        assert_eq!((row.signed(0), row.signed(1)), (Some(-1), Some(i64::MIN)));
    }
}
