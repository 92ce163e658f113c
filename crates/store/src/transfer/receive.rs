//! Receiving: rows become a trace of this host's making. Whoever sends is not trusted: tables and columns are ours, values are of the
//! kind their column has, and there is an end to it.

use super::format::{self, Begin, End, Rows};
use super::{NOT_SENT, TransferError};
use crate::schema::{self, Column, SCHEMA_VERSION, Table};
use crate::{StoreError, file};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Takes bytes as they come.
#[derive(Debug)]
pub struct Receiver {
    db: Connection,
    path: PathBuf,
    /// The begin of a record that is not there as a whole.
    rest: Vec<u8>,
    begun: bool,
    table: Option<Target>,
    rows: u64,
    bytes: u64,
    most_bytes: u64,
    whole: bool,
}

/// Where rows go.
#[derive(Debug)]
struct Target {
    insert: String,
    columns: Vec<&'static Column>,
}

impl Receiver {
    /// Makes a trace at `path`, which is empty or not there, from at most so many bytes.
    pub fn new(path: &Path, most_bytes: u64) -> Result<Receiver, TransferError> {
        let db = file::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let prepare = || -> rusqlite::Result<()> {
            db.pragma_update(None, "page_size", 8192)?;
            // A file that is not finished is thrown away, so there is nothing to undo.
            db.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
            db.pragma_update(None, "synchronous", "OFF")?;
            schema::create(&db)?;
            db.execute_batch("BEGIN")
        };
        prepare().map_err(|error| StoreError::at(path, error))?;
        Ok(Receiver {
            db,
            path: path.into(),
            rest: Vec::new(),
            begun: false,
            table: None,
            rows: 0,
            bytes: 0,
            most_bytes,
            whole: false,
        })
    }

    /// So far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn take(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.most_bytes {
            return Err(TransferError::TooLarge { limit: self.most_bytes });
        }
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut left = all.as_slice();
        while let Some((head, behind)) = left.split_first_chunk::<{ format::HEAD }>() {
            let length = u32::from_le_bytes(*head) as usize;
            if length == 0 || length > format::LARGEST {
                return Err(not_a_trace(format!("a record of {length} bytes")));
            }
            let Some((record, behind)) = behind.split_at_checked(length) else { break };
            self.record(record)?;
            left = behind;
        }
        // A long record that comes in small pieces stays where it is.
        let done = all.len() - left.len();
        all.drain(..done);
        self.rest = all;
        Ok(())
    }

    /// The stream is over; the number of rows, if that was all of it.
    pub fn finish(self) -> Result<u64, TransferError> {
        if !self.whole {
            return Err(TransferError::Cut);
        }
        let at = |error| TransferError::Store(StoreError::at(&self.path, error));
        self.db.execute_batch("COMMIT").map_err(at)?;
        // What the disk cannot hold it says now.
        self.db.close().map_err(|(_, error)| StoreError::at(&self.path, error))?;
        Ok(self.rows)
    }

    fn record(&mut self, record: &[u8]) -> Result<(), TransferError> {
        let Some((kind, what)) = record.split_first() else { return Ok(()) };
        if self.whole {
            return Err(not_a_trace("it goes on behind its end"));
        }
        if !self.begun && *kind != format::BEGIN {
            return Err(not_a_trace("it does not begin as one"));
        }
        match *kind {
            format::BEGIN => self.begin(&parsed(what)?),
            format::TABLE => self.of_table(&parsed(what)?),
            format::ROW => self.row(what),
            format::END => {
                let End { rows } = parsed(what)?;
                self.whole = rows == self.rows;
                if self.whole { Ok(()) } else { Err(TransferError::Cut) }
            }
            format::BROKEN => {
                Err(TransferError::Sender(String::from_utf8_lossy(what).chars().take(500).collect()))
            }
            other => Err(not_a_trace(format!("a record of kind {other}"))),
        }
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), TransferError> {
        if begin.format != format::FORMAT || begin.schema > SCHEMA_VERSION {
            return Err(TransferError::Newer { found: begin.schema });
        }
        self.begun = true;
        Ok(())
    }

    /// What an older sender does not have stays NULL.
    fn of_table(&mut self, rows: &Rows) -> Result<(), TransferError> {
        let known = schema::table(&rows.table).filter(|table| !NOT_SENT.contains(&table.name));
        let table = known.ok_or_else(|| not_a_trace("a table that no trace has"))?;
        let mut columns: Vec<&'static Column> = Vec::new();
        for name in &rows.columns {
            let column =
                column(table, name).filter(|own| !columns.iter().any(|there| there.name == own.name));
            columns.push(column.ok_or_else(|| not_a_trace(format!("a column that {} has not", table.name)))?);
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let insert = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            table.name,
            names.join(", "),
            vec!["?"; names.len()].join(",")
        );
        self.table = Some(Target { insert, columns });
        Ok(())
    }

    fn row(&mut self, mut values: &[u8]) -> Result<(), TransferError> {
        let target = self.table.as_ref().ok_or_else(|| not_a_trace("a row of no table"))?;
        let at = |error| TransferError::Store(StoreError::at(&self.path, error));
        let mut insert = self.db.prepare_cached(&target.insert).map_err(at)?;
        for (place, column) in target.columns.iter().enumerate() {
            let value = format::take(&mut values).ok_or_else(|| not_a_trace("a row that is cut"))?;
            if !fits(column.kind, value) {
                return Err(not_a_trace(format!("{} is of another kind", column.name)));
            }
            insert.raw_bind_parameter(place + 1, ToSqlOutput::Borrowed(value)).map_err(at)?;
        }
        if !values.is_empty() {
            return Err(not_a_trace("a row that is too long"));
        }
        insert.raw_execute().map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation | rusqlite::ErrorCode::TypeMismatch) => {
                not_a_trace(error.to_string())
            }
            _ => at(error),
        })?;
        self.rows += 1;
        Ok(())
    }
}

fn column(table: &'static Table, name: &str) -> Option<&'static Column> {
    table.columns.iter().find(|column| column.name == name)
}

/// Readers take a column's kind for granted.
fn fits(kind: &str, value: ValueRef<'_>) -> bool {
    match (kind, value) {
        (_, ValueRef::Null) => true,
        ("INTEGER" | "REAL", ValueRef::Integer(_) | ValueRef::Real(_)) => true,
        ("INTEGER" | "REAL", _) => false,
        ("TEXT", value) => matches!(value, ValueRef::Text(_)),
        _ => true,
    }
}

fn parsed<T: DeserializeOwned>(words: &[u8]) -> Result<T, TransferError> {
    serde_json::from_slice(words).map_err(|error| not_a_trace(error.to_string()))
}

fn not_a_trace(why: impl Into<String>) -> TransferError {
    TransferError::NotATrace(why.into())
}
