//! Reading a trace: never changes it, and needs no more than permission to read it.

mod copy;
mod facts;
mod guard;
mod moment;
mod off_cpu;
mod older;
mod origin;
mod processes;
mod records;
mod servers;
mod spill;
mod sql;
mod stop;
mod stream;
mod worker;

use crate::file::{self, Found};
use crate::ingero::{self, Ingero};
use crate::{Session, StoreError};
use guard::Deadline;
use rusqlite::hooks::{AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

pub use gpuwhy_model::Span;
pub use off_cpu::StoredCalls;
pub use origin::{Maker, Origin};
pub use records::Filter;
pub use rusqlite::types::Value;
pub use rusqlite::types::ValueRef;
pub use sql::{Answer, Limits};
pub use stop::Stop;
pub(crate) use stream::names;
pub use stream::{Event, Record};
pub use worker::{Worker, serve_statement};

/// For a file to be told from others, and for what it lacks to be made: of a large one of another tool all rows are read once.
const OPENING: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct Reader {
    db: Connection,
    path: PathBuf,
    deadline: Deadline,
    origin: Origin,
    /// How to read a file that Ingero made.
    ingero: Option<Ingero>,
    /// What ought to be in the file and is not; part of every answer's coverage.
    missing: Vec<String>,
    /// Who answers statements of users; this process itself where nobody is named.
    worker: Option<Worker>,
    /// The file that is open: `path`, or a copy of it.
    file: PathBuf,
    /// Where the file could only be read as a copy.
    _copy: Option<TempDir>,
    /// Opened ahead, for a thread that can open nothing.
    spares: Mutex<Vec<Opened>>,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        if file::regular(path)?.len() == 0 {
            return Err(StoreError::Empty { path: path.into() });
        }
        let deadline = Deadline::default();
        deadline.set(OPENING, Limits::default().spill);
        let (opened, copy) = match open(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY, &deadline) {
            Ok(opened) => (opened, None),
            // A writer that was killed left a log, and SQLite may not write the index it needs to read that.
            Err(StoreError::Unreadable { why, .. }) => {
                let (folder, file) = copy::of(path, &why)?;
                (open(&file, path, OpenFlags::SQLITE_OPEN_READ_WRITE, &deadline)?, Some(folder))
            }
            Err(error) => return Err(error),
        };
        deadline.clear();
        Reader::guarded(opened, path, deadline, copy)
    }

    /// A reader for a thread that can open no files: up to `others` more for [`Reader::at_one_moment_with`] are open as well,
    /// and what is sorted stays in memory.
    pub fn open_ahead(path: &Path, others: usize) -> Result<Reader, StoreError> {
        let mut reader = Reader::open(path)?;
        let in_memory = |db: &Connection| db.pragma_update(None, "temp_store", "MEMORY");
        reader.db.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(|e| reader.fail(e))?;
        in_memory(&reader.db).map_err(|error| reader.fail(error))?;
        guard::close(&mut reader.db).map_err(|error| reader.fail(error))?;
        let others = if reader.is_copy() { 0 } else { others };
        let open = || {
            let opened = open(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY, &reader.deadline)?;
            in_memory(&opened.db).map_err(|error| StoreError::at(path, error))?;
            Ok(opened)
        };
        let spares = (0..others).map(|_| open()).collect::<Result<_, StoreError>>()?;
        reader.spares = Mutex::new(spares);
        Ok(reader)
    }

    /// From now on it can only read, and stops at the deadline.
    fn guarded(
        opened: Opened,
        path: &Path,
        deadline: Deadline,
        copy: Option<TempDir>,
    ) -> Result<Reader, StoreError> {
        let Opened { db, file, origin, ingero } = opened;
        let (path, missing, worker) = (path.into(), Vec::new(), None);
        let spares = Mutex::default();
        let mut reader =
            Reader { db, path, deadline, origin, ingero, missing, worker, file, _copy: copy, spares };
        guard::close(&mut reader.db).map_err(|error| reader.fail(error))?;
        Ok(reader)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Statements of users are answered by this process from now on, which can be ended whatever the statement does.
    pub fn answer_in(&mut self, worker: Worker) {
        self.worker = Some(worker);
    }

    /// The file that is open, which may be a copy.
    fn file(&self) -> &Path {
        &self.file
    }

    /// Statements end with an error once `stop` is stopped, by whoever has a clone of it.
    pub fn stop_with(&self, stop: &Stop) {
        self.deadline.stop_with(stop);
    }

    /// Every answer's coverage says from now on that this is not in it: nodes that were asked and failed.
    pub fn without(&mut self, missing: Vec<String>) {
        self.missing = missing;
    }

    /// It was made from a copy of the file, and does not see what is written later.
    pub fn is_copy(&self) -> bool {
        self._copy.is_some()
    }

    /// The runs that wrote the file, in their order.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.rows(Session::SQL, [], Session::from_row)
    }

    fn fail(&self, error: rusqlite::Error) -> StoreError {
        StoreError::at(&self.path, error)
    }

    /// All rows of a query of ours.
    fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.each(sql, params, read, |row| rows.push(row))?;
        Ok(rows)
    }

    /// The same, one at a time.
    fn each<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
        mut visit: impl FnMut(T),
    ) -> Result<(), StoreError> {
        let run = || -> rusqlite::Result<()> {
            let mut statement = self.db.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                visit(read(row)?);
            }
            Ok(())
        };
        run().map_err(|error| self.fail(error))
    }
}

/// A file that can be asked our questions.
#[derive(Debug)]
struct Opened {
    db: Connection,
    file: PathBuf,
    origin: Origin,
    ingero: Option<Ingero>,
}

/// `name` is the file people asked for, `path` the one that is opened.
fn open(path: &Path, name: &Path, flags: OpenFlags, deadline: &Deadline) -> Result<Opened, StoreError> {
    let mut db = file::open(path, flags)?;
    let at = |error| StoreError::at(name, error);
    guard::limit(&mut db, deadline).map_err(at)?;
    identified(db, path, name).map_err(|error| match error {
        // Nobody has asked a question yet, so nobody has taken one back.
        StoreError::Stopped if !deadline.is_stopped() => StoreError::Damaged {
            path: name.into(),
            why: format!("looking at its tables took longer than {OPENING:?}"),
        },
        other => other,
    })
}

fn identified(db: Connection, path: &Path, name: &Path) -> Result<Opened, StoreError> {
    let at = |error| StoreError::at(name, error);
    let file = path.to_path_buf();
    match file::identify(&db, name)? {
        Found::Trace => {}
        Found::Older => older::supplement(&db).map_err(at)?,
        Found::Ingero => {
            let (origin, ingero) = ingero::open(&db).map_err(at)?;
            return Ok(Opened { db, file, origin, ingero: Some(ingero) });
        }
        Found::Blank => return Err(StoreError::Blank { path: name.into() }),
    }
    let version = db.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).map_err(at)?;
    let origin = Origin { maker: Maker::Gpuwhy, schema: version.to_string(), notes: Vec::new() };
    Ok(Opened { db, file, origin, ingero: None })
}
