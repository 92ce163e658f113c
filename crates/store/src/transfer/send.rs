//! Sending: every row of every table, as the trace is at this moment.

use super::format::{self, Begin, End, Rows};
use super::{NOT_SENT, TransferError};
use crate::merge::GoOn;
use crate::reader::{Maker, names};
use crate::schema::{SCHEMA_VERSION, TABLES, Table};
use crate::{Reader, Value};
use std::io::Write;

/// Bytes that are written at once.
const PIECE: usize = 64 << 10;
/// Rows between two looks whether somebody wants to stop.
const ROWS_A_LOOK: u64 = 4096;

/// Of a part: what is as old as `from_ns` or newer, and what has no time of its own or no end; the number of rows. What goes wrong
/// with the trace on the way is told in the stream, too.
pub fn send(
    reader: &Reader,
    from_ns: Option<u64>,
    out: &mut dyn Write,
    go_on: &GoOn<'_>,
) -> Result<u64, TransferError> {
    if reader.origin().maker != Maker::Gpuwhy {
        return Err(TransferError::Foreign);
    }
    let mut sender = Sender { out, piece: Vec::with_capacity(PIECE + 4096), rows: 0, go_on };
    let sent = reader.at_one_moment(|| sender.all(reader, from_ns));
    if let Err(TransferError::Store(error)) = &sent {
        let message = error.to_string();
        format::record(&mut sender.piece, format::BROKEN, |out| out.extend_from_slice(message.as_bytes()));
        sender.write()?;
    }
    sent
}

struct Sender<'a> {
    out: &'a mut dyn Write,
    piece: Vec<u8>,
    rows: u64,
    go_on: &'a GoOn<'a>,
}

impl Sender<'_> {
    fn all(&mut self, reader: &Reader, from_ns: Option<u64>) -> Result<u64, TransferError> {
        self.send(format::BEGIN, &Begin { format: format::FORMAT, schema: SCHEMA_VERSION })?;
        for table in TABLES.iter().filter(|table| !NOT_SENT.contains(&table.name)) {
            self.table(reader, table, from_ns)?;
        }
        self.send(format::END, &End { rows: self.rows })?;
        self.write()?;
        Ok(self.rows)
    }

    /// In the order in which a merge of the file would read them, so that it makes no difference to one.
    fn table(&mut self, reader: &Reader, table: &Table, from_ns: Option<u64>) -> Result<(), TransferError> {
        let columns: Vec<String> = table.columns.iter().map(|column| column.name.to_string()).collect();
        let width = columns.len();
        self.send(format::TABLE, &Rows { table: table.name.into(), columns })?;
        let (part, values) = match (table.age, from_ns) {
            (Some(age), Some(from_ns)) => {
                let from = Value::Integer(from_ns.min(i64::MAX as u64) as i64);
                (format!(" WHERE {age} >= ? OR {age} IS NULL"), vec![from])
            }
            _ => (String::new(), Vec::new()),
        };
        let sql = format!("SELECT {} FROM {}{part}", names(table.columns), table.name);
        reader.stream::<TransferError>(&sql, &values, |row| {
            self.rows += 1;
            if self.rows.is_multiple_of(ROWS_A_LOOK) && !(self.go_on)(self.rows) {
                return Err(TransferError::Interrupted);
            }
            format::record(&mut self.piece, format::ROW, |out| {
                (0..width).for_each(|at| format::put(out, row.value(at)));
            });
            if self.piece.len() >= PIECE { self.write() } else { Ok(()) }
        })
    }

    fn send(&mut self, kind: u8, what: &impl serde::Serialize) -> Result<(), TransferError> {
        let words = serde_json::to_vec(what).map_err(std::io::Error::from)?;
        format::record(&mut self.piece, kind, |out| out.extend_from_slice(&words));
        Ok(())
    }

    fn write(&mut self) -> Result<(), TransferError> {
        self.out.write_all(&self.piece)?;
        self.piece.clear();
        Ok(())
    }
}
