//! What a file lacks of today's tables: nothing where it is of our version, else what has come since.

use super::{Column, TABLES, Table};
use rusqlite::Connection;
use std::collections::HashSet;

/// Of one table.
#[derive(Debug)]
pub(crate) enum Missing {
    Table(&'static Table),
    Columns(&'static Table, Vec<&'static Column>),
}

pub(crate) fn missing_parts(db: &Connection) -> rusqlite::Result<Vec<Missing>> {
    let mut columns = db.prepare(
        "SELECT m.name, i.name FROM sqlite_master m, pragma_table_info(m.name) i WHERE m.type = 'table'",
    )?;
    let there: HashSet<(String, String)> =
        columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let of = |table: &'static Table| {
        let gone: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| !there.contains(&(table.name.into(), column.name.into())))
            .collect();
        match gone.len() {
            0 => None,
            all if all == table.columns.len() => Some(Missing::Table(table)),
            _ => Some(Missing::Columns(table, gone)),
        }
    };
    Ok(TABLES.iter().filter_map(of).collect())
}
