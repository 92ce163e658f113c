//! A file as it is at one moment, whatever is written to it meanwhile; for several readers at once where that is faster.

use super::{OpenFlags, PoisonError, Reader, open};
use crate::StoreError;

/// A writer commits a few times a second, and readers are opened within a millisecond.
const TRIES: usize = 5;

impl Reader {
    /// What `work` reads is the file as it is at this moment.
    pub fn at_one_moment<T, E: From<StoreError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.at_one_moment_with(0, |_| work())
    }

    /// The same with up to `others` more readers of the file, which see it as it is at the same moment. There are none of
    /// a file that can only be read as a copy, or is written to without a pause.
    pub fn at_one_moment_with<T, E: From<StoreError>>(
        &self,
        others: usize,
        work: impl FnOnce(Vec<Reader>) -> Result<T, E>,
    ) -> Result<T, E> {
        let fail = |error| E::from(self.fail(error));
        let others = if self.is_copy() { 0 } else { others };
        for tries_left in (0..TRIES).rev() {
            let before = self.changes().map_err(fail)?;
            let others: Vec<Reader> = match tries_left {
                0 => Vec::new(),
                _ => (0..others).map_while(|_| self.other().ok()).collect(),
            };
            // A statement that has not ended keeps what it sees for all others of its connection.
            let mut held = self.db.prepare("SELECT name FROM sqlite_master").map_err(fail)?;
            let mut rows = held.query([]).map_err(fail)?;
            rows.next().map_err(fail)?;
            // They began to read after the first look and before the second.
            if others.is_empty() || self.changes().map_err(fail)? == before {
                return work(others);
            }
        }
        unreachable!("the last time nobody else reads")
    }

    /// Another number once somebody else has written.
    fn changes(&self) -> rusqlite::Result<i64> {
        self.db.query_row("PRAGMA data_version", [], |row| row.get(0))
    }

    /// Stays with the file as it is now.
    fn other(&self) -> Result<Reader, StoreError> {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let opened = match spare {
            Some(opened) => opened,
            None => open(&self.path, &self.path, OpenFlags::SQLITE_OPEN_READ_ONLY, &self.deadline)?,
        };
        let held = opened.db.execute_batch("BEGIN; SELECT name FROM sqlite_master");
        held.map_err(|error| self.fail(error))?;
        let mut other = Reader::guarded(opened, &self.path, self.deadline.clone(), None)?;
        other.without(self.missing.clone());
        Ok(other)
    }
}
