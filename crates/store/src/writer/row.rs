//! How rows are written: statements made from the schema, values bound by the names of their columns, and the
//! file's ways to say that something is not known.

use crate::schema::Table;
use gpuwhy_model::{Blame, Reason};
use rusqlite::{CachedStatement, Connection, Statement};

/// Binds values by the names of their columns and runs the statement. A name that the table does not have fails to
/// compile; what is not named is NULL.
macro_rules! put {
    ($statement:expr, $table:expr, $($column:literal = $value:expr),* $(,)?) => {{
        $($statement.raw_bind_parameter(const { $table.place($column) } + 1, $value)?;)*
        $statement.raw_execute()?
    }};
}
pub(super) use put;

/// Binds the time of every reason; `places` is where a table has them.
pub(super) fn bind_reasons(
    statement: &mut Statement<'_>,
    places: [usize; Reason::COUNT],
    blame: &Blame,
) -> rusqlite::Result<()> {
    for (place, ns) in places.into_iter().zip(blame.blocked_ns) {
        statement.raw_bind_parameter(place + 1, ns as i64)?;
    }
    Ok(())
}

/// The statement that adds a row to a table: to be asked for once for many rows, as its text is made each time.
pub(super) fn insert_into<'c>(db: &'c Connection, table: &Table) -> rusqlite::Result<CachedStatement<'c>> {
    db.prepare_cached(&table.insert_sql("INSERT", 1))
}

/// Empty text is text that is not known.
pub(super) fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn nonzero(number: u64) -> Option<i64> {
    Some(number as i64).filter(|number| *number != 0)
}

/// Counts and times: SQLite's integers are signed.
pub(super) fn number(number: Option<u64>) -> Option<i64> {
    number.map(|number| number as i64)
}

/// A handle or an address for people.
pub(super) fn hex(handle: u64) -> String {
    format!("{handle:#x}")
}

/// The same where 0 stands for none.
pub(super) fn handle(handle: u64) -> Option<String> {
    Some(handle).filter(|handle| *handle != 0).map(hex)
}
