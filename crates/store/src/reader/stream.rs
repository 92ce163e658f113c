//! Rows one at a time, for those who carry a trace elsewhere: nothing is collected, and whoever looks can stop.

use super::records::{Filter, call};
use super::sql::owned;
use super::{Reader, Value};
use crate::StoreError;
use crate::schema::calls::CALLS;
use crate::schema::{Column, TABLES, Table};
use gpuwhy_model::Call;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows, params_from_iter};
use std::borrow::Cow;

/// A row while it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    row: &'a Row<'a>,
}

impl<'a> Record<'a> {
    /// NULL for a column that is not there.
    pub fn value(&self, at: usize) -> ValueRef<'a> {
        self.row.get_ref(at).unwrap_or(ValueRef::Null)
    }

    /// The same, to be kept.
    pub fn owned(&self, at: usize) -> Value {
        owned(self.value(at))
    }

    /// Nothing for NULL, and for what is no number.
    pub fn integer(&self, at: usize) -> Option<i64> {
        match self.value(at) {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Real(number) => Some(number as i64),
            _ => None,
        }
    }

    pub fn real(&self, at: usize) -> Option<f64> {
        match self.value(at) {
            ValueRef::Integer(number) => Some(number as f64),
            ValueRef::Real(number) => Some(number),
            _ => None,
        }
    }

    /// Nothing for NULL, and for what is no text. What is not UTF-8 in it is shown as such.
    pub fn text(&self, at: usize) -> Option<Cow<'a, str>> {
        match self.value(at) {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }
}

/// Something that happened: a kept call, or a row of another table that the `events` view shows.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a box would be an allocation a row"
)]
pub enum Event<'a> {
    Call(&'a Call),
    /// Its values are in the order of the table's columns.
    Row(&'static Table, Record<'a>),
}

/// Rows of one table in order of time.
struct Source<'s> {
    /// Nothing for the calls.
    table: Option<&'static Table>,
    rows: Rows<'s>,
    duration: Option<usize>,
    /// Start and duration of the row it is at; nothing at its end.
    next: Option<(i64, i64)>,
}

impl Source<'_> {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.rows.advance()?;
        self.next = self.rows.get().map(|row| {
            let record = Record { row };
            let duration = self.duration.and_then(|at| record.integer(at));
            (record.integer(0).unwrap_or(0), duration.unwrap_or(0))
        });
        Ok(())
    }
}

impl Reader {
    /// Every row that a statement of ours gives.
    pub fn stream<E: From<StoreError>>(
        &self,
        sql: &str,
        values: &[Value],
        mut visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let fail = |error| E::from(self.fail(error));
        let mut statement = self.db.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            visit(Record { row })?;
        }
        Ok(())
    }

    /// Kept calls as they lie in the file: almost in order of time.
    pub fn stream_calls<E: From<StoreError>>(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(Call) -> Result<(), E>,
    ) -> Result<(), E> {
        let (clause, values) = filter.clause("timestamp_ns");
        let sql = format!("SELECT {} FROM calls{clause}", names(CALLS.columns));
        self.stream(&sql, &values, |record| visit(call(record.row).map_err(|error| self.fail(error))?))
    }

    /// Every row of the `events` view, with all columns of the table it comes from, in order of start; of those that
    /// start together the longest first, so that what lies within another comes after it.
    pub fn timeline<E: From<StoreError>>(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let fail = |error| E::from(self.fail(error));
        let tables: Vec<&'static Table> = TABLES.iter().filter(|table| table.layer.is_some()).collect();
        let mut statements = Vec::new();
        for table in std::iter::once(&CALLS).chain(tables.iter().copied()) {
            let (clause, _) = filter.clause("timestamp_ns");
            let longest = if table.has("duration_ns") { ", duration_ns DESC" } else { "" };
            // The start comes first, as in every dated table.
            let sql = format!(
                "SELECT {} FROM {}{clause} ORDER BY timestamp_ns{longest}",
                names(table.columns),
                table.name
            );
            statements.push(self.db.prepare(&sql).map_err(fail)?);
        }
        let (_, values) = filter.clause("timestamp_ns");
        let mut sources = Vec::new();
        let of = std::iter::once(None).chain(tables.into_iter().map(Some));
        for (statement, table) in statements.iter_mut().zip(of) {
            let columns = table.unwrap_or(&CALLS).columns;
            let mut source = Source {
                table,
                rows: statement.query(params_from_iter(&values)).map_err(fail)?,
                duration: columns.iter().position(|column| column.name == "duration_ns"),
                next: None,
            };
            source.advance().map_err(fail)?;
            sources.push(source);
        }
        // A handful of tables: looking at all of them is cheaper than a heap.
        while let Some(source) = sources
            .iter_mut()
            .filter(|source| source.next.is_some())
            .min_by_key(|source| source.next.map(|(start, duration)| (start, -duration)))
        {
            if let Some(row) = source.rows.get() {
                match source.table {
                    None => visit(Event::Call(&call(row).map_err(fail)?))?,
                    Some(table) => visit(Event::Row(table, Record { row }))?,
                }
            }
            source.advance().map_err(fail)?;
        }
        Ok(())
    }
}

/// The columns of a table or view as a list for SELECT.
pub(crate) fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}
