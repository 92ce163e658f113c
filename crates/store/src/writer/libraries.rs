//! The library files of a run, numbered as the file numbers them: several runs append to one file.

use gpuwhy_model::LibraryInfo;
use rusqlite::{Connection, OptionalExtension, params};

/// By the run's own number.
#[derive(Debug, Default)]
pub(super) struct Libraries(Vec<Option<i64>>);

impl Libraries {
    pub(super) fn add(
        &mut self,
        db: &Connection,
        infos: &[LibraryInfo],
        session_id: i64,
    ) -> rusqlite::Result<()> {
        for info in infos {
            let at = usize::from(info.number);
            if self.0.len() <= at {
                self.0.resize(at + 1, None);
            }
            self.0[at] = Some(number(db, info, session_id)?);
        }
        Ok(())
    }

    /// Nothing for a library nobody has told of.
    pub(super) fn file_id(&self, number: u16) -> Option<i64> {
        self.0.get(usize::from(number)).copied().flatten()
    }
}

fn number(db: &Connection, info: &LibraryInfo, session_id: i64) -> rusqlite::Result<i64> {
    let known = db
        .prepare_cached("SELECT library_id FROM libraries WHERE kind = ? AND file = ?")?
        .query_row(params![info.kind, info.file], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    db.prepare_cached("INSERT INTO libraries (kind, file, session_id) VALUES (?, ?, ?)")?
        .execute(params![info.kind, info.file, session_id])?;
    Ok(db.last_insert_rowid())
}
