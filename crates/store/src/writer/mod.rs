//! The one writer of a trace file: batches go into an open transaction, commits make them visible and safe.

mod calls;
mod host;
mod ops;
mod retention;
mod sums;

use crate::file::{self, Found};
use crate::lock::Lock;
use crate::{SessionInfo, StoreError, schema};
use gpuwhy_model::{Batch, BlameRow, Loss, OpInfo, ProbeStatus, Stack};
use ops::Ops;
use retention::Retention;
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, params};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub struct Options {
    /// The oldest rows are deleted when the file would pass this size. Below 4 MiB there is no room for a trace.
    pub max_size: u64,
    /// Create the folders on the way to the file.
    pub create_folders: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_size: 10 << 30, create_folders: false }
    }
}

/// What a probe has cost so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeCost {
    pub probe: String,
    pub target: String,
    pub file: String,
    pub hits: u64,
    pub cost_ns: u64,
}

#[derive(Debug)]
pub struct Writer {
    // Fields drop in this order: the database must be closed before the lock is given back.
    db: Connection,
    path: PathBuf,
    session_id: i64,
    ops: Ops,
    retention: Retention,
    rows_open: usize,
    newest_ns: u64,
    lock: Lock,
}

impl Writer {
    /// Opens the trace at `path`, or makes it, and begins a session in it.
    pub fn create_or_append(
        path: &Path,
        session: &SessionInfo,
        ops: &[OpInfo],
        options: &Options,
    ) -> Result<Writer, StoreError> {
        if let Some(folder) = path.parent().filter(|_| options.create_folders) {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::open(folder, &error))?;
        }
        let lock = Lock::take(path)?;
        let created = lock.created;
        Writer::begin_session(path, session, ops, options, lock).inspect_err(|_| {
            if created {
                let _ = std::fs::remove_file(path);
            }
        })
    }

    fn begin_session(
        path: &Path,
        session: &SessionInfo,
        ops: &[OpInfo],
        options: &Options,
        lock: Lock,
    ) -> Result<Writer, StoreError> {
        let at = |error| StoreError::at(path, error);
        let db = open(path)?;
        let retention = Retention::new(options.max_size);
        configure(&db, &retention).map_err(at)?;
        let (session_id, ops) = begin(&db, session, ops).map_err(at)?;
        Ok(Writer {
            db,
            path: path.into(),
            session_id,
            ops,
            retention,
            rows_open: 0,
            newest_ns: session.start_ns,
            lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a batch into the open transaction. Others see it after [`Writer::commit`].
    pub fn write(&mut self, batch: &Batch, blame: &[BlameRow]) -> Result<(), StoreError> {
        let newest = batch.calls.iter().map(|call| call.start_ns).max();
        let newest = newest.max(batch.windows.iter().map(|window| window.window_start_ns).max());
        self.newest_ns = self.newest_ns.max(newest.unwrap_or(0));
        // Large batches go in by parts, so that neither the transaction nor the log outgrows the file's limit.
        for part in batch.calls.chunks(self.retention.rows_a_commit) {
            if self.rows_open + part.len() > self.retention.rows_a_commit {
                self.commit()?;
            }
            self.inside(|writer| calls::insert(&writer.db, part, &mut writer.ops, writer.session_id))?;
            self.rows_open += part.len();
        }
        self.inside(|writer| writer.rest(batch, blame))
    }

    /// What is known of the probes: attached, degraded or refused.
    pub fn write_probes(&mut self, probes: &[ProbeStatus]) -> Result<(), StoreError> {
        self.inside(|writer| {
            let mut row = cached(&writer.db, "probes", schema::Table::upsert_sql)?;
            for p in probes {
                row.execute(params![
                    writer.session_id,
                    p.probe,
                    p.target,
                    p.file,
                    p.state.name(),
                    known(&p.flavour),
                    nonzero(p.since_ns),
                    known(&p.reason),
                    None::<i64>,
                    None::<i64>,
                ])?;
            }
            Ok(())
        })
    }

    /// What probes have cost so far, in place of what was written before.
    pub fn write_probe_costs(&mut self, costs: &[ProbeCost]) -> Result<(), StoreError> {
        self.inside(|writer| {
            let mut row = writer.db.prepare_cached(
                "UPDATE probes SET hits = ?, cost_ns = ? WHERE session_id = ? AND probe = ? AND target = ? AND file = ?",
            )?;
            for c in costs {
                row.execute(params![
                    c.hits as i64,
                    c.cost_ns as i64,
                    writer.session_id,
                    c.probe,
                    c.target,
                    c.file
                ])?;
            }
            Ok(())
        })
    }

    /// Makes visible and safe what was written. To be called at least twice a second.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.commit_open()?;
        self.retention.enforce(&self.db, self.newest_ns).map_err(|error| StoreError::at(&self.path, error))
    }

    /// Ends the session. One plain file remains, unless somebody is reading it at this moment.
    pub fn finish(mut self, end_ns: u64) -> Result<(), StoreError> {
        self.inside(|writer| {
            writer
                .db
                .execute(
                    "UPDATE sessions SET end_ns = ? WHERE session_id = ?",
                    params![end_ns as i64, writer.session_id],
                )
                .map(drop)
        })?;
        self.commit_open()?;
        // A reader keeps the log in use: then the file stays as it is, complete with the log beside it.
        let _ = self.db.busy_timeout(Duration::from_millis(200));
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
        Ok(())
    }

    /// Takes the session back as if it had never begun: a file made for it goes again.
    pub fn abandon(mut self) -> Result<(), StoreError> {
        if !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
        if !self.lock.created {
            self.inside(|writer| {
                writer.db.execute("DELETE FROM probes WHERE session_id = ?", [writer.session_id])?;
                writer.db.execute("DELETE FROM sessions WHERE session_id = ?", [writer.session_id]).map(drop)
            })?;
            return self.finish(0);
        }
        let path = self.path.clone();
        drop(self);
        std::fs::remove_file(&path).map_err(|error| StoreError::open(&path, &error))
    }

    fn commit_open(&mut self) -> Result<(), StoreError> {
        self.rows_open = 0;
        if self.db.is_autocommit() {
            return Ok(());
        }
        self.db.execute_batch("COMMIT").map_err(|error| {
            if !self.db.is_autocommit() {
                let _ = self.db.execute_batch("ROLLBACK");
            }
            StoreError::at(&self.path, error)
        })
    }

    /// Runs within the open transaction, opening one where none is.
    fn inside(&mut self, work: impl FnOnce(&mut Writer) -> rusqlite::Result<()>) -> Result<(), StoreError> {
        if self.db.is_autocommit() {
            self.db.execute_batch("BEGIN IMMEDIATE").map_err(|error| StoreError::at(&self.path, error))?;
        }
        work(self).map_err(|error| StoreError::at(&self.path, error))
    }

    /// All of a batch but its calls.
    fn rest(&mut self, batch: &Batch, blame: &[BlameRow]) -> rusqlite::Result<()> {
        sums::windows(&self.db, &batch.windows, &mut self.ops, self.session_id)?;
        sums::blame(&self.db, blame, &mut self.ops, self.session_id)?;
        host::process_events(&self.db, &batch.process_events, self.session_id)?;
        host::processes(&self.db, &batch.processes, self.session_id)?;
        stacks(&self.db, &batch.stacks)?;
        losses(&self.db, &batch.losses, self.session_id)
    }
}

/// How long a file is looked through before it is written to; a large one is looked at in part.
const LOOK: Duration = Duration::from_millis(250);

/// The database at `path`, made a trace if it is new. A file that is something else, or damaged, stays as it is.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let read_write = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let look = |flags: OpenFlags| {
        let db = file::open(path, flags)?;
        let found = file::identify(&db, path)?;
        unharmed(db, path).map(|()| found)
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
        if found == Found::Blank { schema::create(&db) } else { Ok(()) }
    };
    make().map_err(|error| StoreError::at(path, error))?;
    Ok(db)
}

/// Finds damage before anything is changed, as far as there is time for it.
fn unharmed(mut db: Connection, path: &Path) -> Result<(), StoreError> {
    let at = |error| StoreError::at(path, error);
    let until = Instant::now() + LOOK;
    db.progress_handler(1000, Some(move || Instant::now() > until)).map_err(at)?;
    let said = db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match said {
        Ok(word) if word == "ok" => Ok(()),
        Ok(words) => Err(StoreError::Damaged {
            path: path.into(),
            why: words.lines().last().unwrap_or_default().into(),
        }),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(()),
        Err(error) => Err(at(error)),
    }
}

fn configure(db: &Connection, retention: &Retention) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", -8000)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", retention.log_pages as i64, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", (retention.log_pages * 8192) as i64, |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(128);
    Ok(())
}

fn begin(db: &Connection, session: &SessionInfo, ops: &[OpInfo]) -> rusqlite::Result<(i64, Ops)> {
    let tx = db.unchecked_transaction()?;
    cached(&tx, "sessions", |table| table.insert_sql("INSERT", 1))?.execute(params![
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

fn stacks(db: &Connection, stacks: &[Stack]) -> rusqlite::Result<()> {
    if stacks.is_empty() {
        return Ok(());
    }
    let mut insert = cached(db, "stacks", |table| table.insert_sql("INSERT OR IGNORE", 1))?;
    for stack in stacks {
        let mut addresses = String::from("[");
        for (depth, address) in stack.addresses.iter().enumerate() {
            let comma = if depth == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(addresses, "{comma}\"{address:#x}\"");
        }
        addresses.push(']');
        insert.execute(params![stack.stack_id, stack.pid, addresses])?;
    }
    Ok(())
}

fn losses(db: &Connection, losses: &[Loss], session_id: i64) -> rusqlite::Result<()> {
    if losses.is_empty() {
        return Ok(());
    }
    let mut insert = cached(db, "loss", |table| table.insert_sql("INSERT", 1))?;
    for loss in losses {
        insert.execute(params![
            loss.start_ns as i64,
            loss.end_ns as i64,
            loss.probe,
            loss.cpu,
            known(&loss.reason),
            loss.count as i64,
            session_id,
        ])?;
    }
    Ok(())
}

/// A statement made from a table of the schema.
fn cached<'c>(
    db: &'c Connection,
    table: &str,
    sql: impl Fn(&schema::Table) -> String,
) -> rusqlite::Result<CachedStatement<'c>> {
    let table = schema::table(table).ok_or_else(|| rusqlite::Error::InvalidParameterName(table.into()))?;
    db.prepare_cached(&sql(table))
}

/// Empty text is text that is not known.
fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn nonzero(number: u64) -> Option<i64> {
    Some(number as i64).filter(|number| *number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Call, Kept, OpId};

    fn batch(from: u64) -> Batch {
        let call = |n| Call {
            start_ns: n,
            duration_ns: 1,
            op: OpId(1),
            pid: 1,
            tid: 1,
            cgroup_id: 0,
            kept: Kept::All,
            sample_weight: 0,
            ret: 0,
            bytes: 0,
            stream: 0,
            handle: 0,
            caller: 0,
            via: None,
            launch: None,
            stack_id: None,
            blame: gpuwhy_model::Blame::default(),
        };
        Batch { calls: (from..from + 10_000).map(call).collect(), ..Batch::default() }
    }

    #[test]
    fn a_full_disk_is_said_so_and_loses_only_what_was_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.db");
        let mut writer =
            Writer::create_or_append(&path, &SessionInfo::default(), &[], &Options::default()).unwrap();
        writer.write(&batch(1), &[]).unwrap();
        writer.commit().unwrap();
        let pages: i64 = writer.db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        writer.db.pragma_update_and_check(None, "max_page_count", pages + 5, |_| Ok(())).unwrap();
        let failed = writer.write(&batch(20_000), &[]).and_then(|()| writer.commit()).unwrap_err();
        assert!(matches!(failed, StoreError::Full { .. }), "{failed}");
        assert!(failed.to_string().starts_with("the disk is full"), "{failed}");
        // Room again, and it goes on.
        writer.db.pragma_update_and_check(None, "max_page_count", pages + 5000, |_| Ok(())).unwrap();
        writer.write(&batch(40_000), &[]).unwrap();
        writer.commit().unwrap();
        let count = |from: i64| {
            let sql = "SELECT count(*) FROM calls WHERE timestamp_ns BETWEEN ?1 AND ?1 + 9999";
            writer.db.query_row(sql, [from], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((count(1), count(40_000)), (10_000, 10_000));
        writer.finish(1).unwrap();
    }
}
