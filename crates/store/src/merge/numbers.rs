//! Numbers that a file gives by itself: operations and libraries, which are known by their names elsewhere.

use super::MergeError;
use crate::schema::Table;
use crate::{Reader, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::collections::HashMap;
use std::path::Path;

/// The rows of a numbered table of the output, by what they are known by.
#[derive(Debug)]
pub(super) struct Numbered {
    table: &'static Table,
    /// How many columns after the number tell rows apart.
    known_by: usize,
    rows: HashMap<Vec<String>, i64>,
    last: i64,
}

impl Numbered {
    pub(super) fn new(table: &'static Table, known_by: usize) -> Numbered {
        Numbered { table, known_by, rows: HashMap::new(), last: 0 }
    }

    /// The numbers here of those of a file; rows that are new are added, `session` to their session.
    pub(super) fn add(
        &mut self,
        reader: &Reader,
        db: &Connection,
        path: &Path,
        session: i64,
    ) -> Result<HashMap<i64, i64>, MergeError> {
        let mut numbers = HashMap::new();
        let columns: Vec<&str> = self.table.columns.iter().map(|column| column.name).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY 1", columns.join(", "), self.table.name);
        let session_at = columns.iter().position(|name| *name == "session_id");
        reader.stream::<MergeError>(&sql, &[], |record| {
            let key: Vec<String> =
                (1..=self.known_by).map(|at| record.text(at).unwrap_or_default().into_owned()).collect();
            let number = match self.rows.get(&key) {
                Some(number) => *number,
                None => {
                    self.last += 1;
                    let mut values: Vec<Value> = (0..columns.len()).map(|at| record.owned(at)).collect();
                    values[0] = Value::Integer(self.last);
                    if let Some(at) = session_at
                        && let Some(own) = record.integer(at)
                    {
                        values[at] = Value::Integer(own.saturating_add(session));
                    }
                    db.prepare_cached(&self.table.insert_sql("INSERT", 1))
                        .and_then(|mut insert| insert.execute(params_from_iter(values)))
                        .map_err(|error| StoreError::at(path, error))?;
                    self.rows.insert(key, self.last);
                    self.last
                }
            };
            numbers.insert(record.integer(0).unwrap_or(0), number);
            Ok(())
        })?;
        Ok(numbers)
    }
}
