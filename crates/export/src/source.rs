//! What is exported: a trace, a part of it, and what was concluded from it.

use crate::ExportError;
use gpuwhy_model::Finding;
use gpuwhy_store::{Filter, Reader};
use std::cell::Cell;
use std::fmt;

/// Rows between two looks whether somebody wants to stop.
pub(crate) const ROWS_A_LOOK: u64 = 4096;

pub struct Source<'a> {
    pub reader: &'a Reader,
    /// Process and time; the operation does not matter here.
    pub filter: Filter,
    /// Shown beside the calls by formats that can.
    pub findings: &'a [Finding],
    /// Told now and then how many rows are done; false stops.
    pub go_on: &'a dyn Fn(u64) -> bool,
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Source").field("reader", &self.reader).field("filter", &self.filter).finish()
    }
}

/// What an export was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Rows of the trace that are in it.
    pub rows: u64,
}

impl<'a> Source<'a> {
    /// All of a trace, told to nobody.
    pub fn whole(reader: &'a Reader) -> Source<'a> {
        Source { reader, filter: Filter::default(), findings: &[], go_on: &|_| true }
    }

    pub(crate) fn meter(&self) -> Meter<'a> {
        Meter { rows: Cell::new(0), go_on: self.go_on }
    }
}

/// Counts rows, and asks now and then whether to go on.
pub(crate) struct Meter<'a> {
    rows: Cell<u64>,
    go_on: &'a dyn Fn(u64) -> bool,
}

impl Meter<'_> {
    pub(crate) fn row(&self) -> Result<(), ExportError> {
        let rows = self.rows.get() + 1;
        self.rows.set(rows);
        match rows.is_multiple_of(ROWS_A_LOOK) && !(self.go_on)(rows) {
            true => Err(ExportError::Interrupted),
            false => Ok(()),
        }
    }

    pub(crate) fn exported(&self) -> Exported {
        Exported { rows: self.rows.get() }
    }
}
