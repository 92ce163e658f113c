//! Opening the file to write: making it, bringing it up to date, looking for damage, beginning a session.

use super::row::{insert_into, known};
use super::{Ops, Retention};
use crate::file::{self, Found};
use crate::schema::host::SESSIONS;
use crate::{SessionInfo, StoreError, schema};
use gpuwhy_model::OpInfo;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a file is looked through before it is written to; a large one is looked at in part.
const LOOK: Duration = Duration::from_millis(250);

/// The database at `path`, made a trace if it is new, and one of our version if it is older. A file that is
/// something else, or damaged, stays as it is.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let read_write = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let look = |flags: OpenFlags| {
        let db = file::open(path, flags)?;
        let found = file::identify(&db, path)?;
        if found == Found::Ingero {
            return Err(StoreError::Foreign { path: path.into() });
        }
        // Before anything looks for damage, which would compute it too.
        match file::computes_when_written(&db).map_err(|error| StoreError::at(path, error))? {
            Some(why) => Err(StoreError::Damaged { path: path.into(), why }),
            None => unharmed(db, path).map(|()| found),
        }
    };
    let found = if file::regular(path)?.len() == 0 {
        Found::Blank
    } else {
        match look(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            // An interrupted writer left a journal which only a writer can undo.
            Err(StoreError::Unreadable { .. }) => look(read_write)?,
            other => other?,
        }
    };
    let db = file::open(path, read_write)?;
    let make = || -> rusqlite::Result<()> {
        if found == Found::Blank {
            db.pragma_update(None, "page_size", 8192)?;
        }
        // Where the file system has no shared memory the journal stays as it is, slower but as safe.
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        match found {
            Found::Blank => schema::create(&db),
            Found::Older => schema::migrate(&db),
            Found::Trace | Found::Ingero => Ok(()),
        }
    };
    make().map_err(|error| StoreError::at(path, error))?;
    Ok(db)
}

/// Finds damage before anything is changed, as far as there is time for it.
fn unharmed(mut db: Connection, path: &Path) -> Result<(), StoreError> {
    let at = |error| StoreError::at(path, error);
    let until = Instant::now() + LOOK;
    db.progress_handler(1000, Some(move || Instant::now() > until)).map_err(at)?;
    let message = db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match message {
        Ok(word) if word == "ok" => Ok(()),
        Ok(words) => Err(StoreError::Damaged {
            path: path.into(),
            why: words.lines().last().unwrap_or_default().into(),
        }),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(()),
        Err(error) => Err(at(error)),
    }
}

/// What the session needs beside what the file keeps.
pub(super) fn configure(db: &Connection, retention: &Retention) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", -8000)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", retention.log_pages as i64, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", (retention.log_pages * 8192) as i64, |_| Ok(()))?;
    // Some three statements a table, most of them for deleting.
    db.set_prepared_statement_cache_capacity(256);
    Ok(())
}

/// The session's row, and its operations under the file's numbers.
pub(super) fn begin(db: &Connection, session: &SessionInfo, ops: &[OpInfo]) -> rusqlite::Result<(i64, Ops)> {
    let tx = db.unchecked_transaction()?;
    insert_into(&tx, &SESSIONS)?.execute(params![
        None::<i64>,
        session.start_ns as i64,
        None::<i64>,
        known(&session.host),
        known(&session.kernel),
        serde_json::Value::from(session.gpus.clone()).to_string(),
        known(&session.driver),
        known(&session.version),
        serde_json::Value::from(session.flags.clone()).to_string(),
        session.clock_offset_ns,
        std::process::id(),
    ])?;
    let session_id = tx.last_insert_rowid();
    let ops = Ops::load(&tx, ops)?;
    tx.commit()?;
    Ok((session_id, ops))
}
