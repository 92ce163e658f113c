//! The one writer of a trace file: batches go into an open transaction, commits make them visible and safe.

mod calls;
mod collectives;
mod containers;
mod findings;
mod gpu;
mod graphs;
mod host;
mod kernel;
mod libraries;
mod marks;
mod memory;
mod open;
mod ops;
mod probes;
mod retention;
mod row;
mod stacks;
mod sums;
mod threads;
mod work;

use crate::lock::Lock;
use crate::{Access, SessionInfo, StoreError};
pub use findings::write_findings;
use gpuwhy_model::{Batch, Facts, OpInfo};
use libraries::Libraries;
use ops::Ops;
pub use probes::ProbeCost;
pub use retention::MIN_SIZE;
use retention::Retention;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Options {
    /// The oldest rows are deleted when the file would pass this size. Below 4 MiB there is no room for a trace.
    pub max_size: u64,
    /// Create the folders on the way to the file.
    pub create_folders: bool,
    /// Who may read the file, and the folders that are made for it.
    pub access: Access,
}

impl Options {
    /// The folders on the way to the file, where they are wanted.
    pub fn make_folders(&self, path: &Path) -> Result<(), StoreError> {
        match path.parent().filter(|_| self.create_folders) {
            Some(folder) => {
                self.access.create_folders(folder).map_err(|error| StoreError::open(folder, &error))
            }
            None => Ok(()),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { max_size: 10 << 30, create_folders: false, access: Access::default() }
    }
}

#[derive(Debug)]
pub struct Writer {
    // Fields drop in this order: the database must be closed before the lock is given back.
    db: Connection,
    path: PathBuf,
    session_id: i64,
    ops: Ops,
    libraries: Libraries,
    retention: Retention,
    /// Rows of the open transaction.
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
        options.make_folders(path)?;
        let lock = Lock::take(path, Some(options.access))?;
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
        let db = open::open(path)?;
        let retention = Retention::new(options.max_size);
        open::configure(&db, &retention).map_err(at)?;
        let (session_id, ops) = open::begin(&db, session, ops).map_err(at)?;
        Ok(Writer {
            db,
            path: path.into(),
            session_id,
            ops,
            libraries: Libraries::default(),
            retention,
            rows_open: 0,
            newest_ns: session.start_ns,
            lock,
        })
    }

    /// When the session really began: a file may be made ready before that.
    pub fn start_at(&mut self, start_ns: u64, clock_offset_ns: i64) -> Result<(), StoreError> {
        self.newest_ns = start_ns;
        self.inside(|writer| {
            let sql = "UPDATE sessions SET start_ns = ?, clock_offset_ns = ? WHERE session_id = ?";
            writer.db.execute(sql, params![start_ns as i64, clock_offset_ns, writer.session_id]).map(drop)
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all files are open that writing needs, until [`Writer::finish`]. Where the file system has no shared memory, a
    /// journal is made and removed for each transaction.
    pub fn has_all_files_open(&self) -> Result<bool, StoreError> {
        let mode = self.db.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
        mode.map(|mode| mode == "wal").map_err(|error| StoreError::at(&self.path, error))
    }

    /// Puts a batch, and what was concluded from it, into the open transaction. Others see it after
    /// [`Writer::commit`].
    pub fn write(&mut self, batch: &Batch, facts: &Facts) -> Result<(), StoreError> {
        let newest = batch.calls.iter().map(|call| call.start_ns).max();
        let newest = newest.max(batch.windows.iter().map(|window| window.window_start_ns).max());
        let newest = newest.max(batch.gpu_samples.iter().map(|sample| sample.time_ns).max());
        self.newest_ns = self.newest_ns.max(newest.unwrap_or(0));
        // The calls have numbers of the libraries.
        self.inside(|writer| writer.libraries.add(&writer.db, &batch.libraries, writer.session_id))?;
        // Large batches go in by parts, so that neither the transaction nor the log outgrows the file's limit.
        for part in batch.calls.chunks(self.retention.rows_a_commit) {
            self.make_room(part.len())?;
            self.inside(|writer| {
                calls::insert(&writer.db, part, &mut writer.ops, &writer.libraries, writer.session_id)
            })?;
        }
        self.make_room(rows(facts))?;
        self.inside(|writer| {
            writer.rest(batch)?;
            writer.facts(facts)
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

    /// Commits what is open where so many rows more would be too many.
    fn make_room(&mut self, rows: usize) -> Result<(), StoreError> {
        if self.rows_open > 0 && self.rows_open + rows > self.retention.rows_a_commit {
            self.commit()?;
        }
        self.rows_open += rows;
        Ok(())
    }

    /// All of a batch but its calls and their libraries.
    fn rest(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let (db, session_id) = (&self.db, self.session_id);
        sums::windows(db, &batch.windows, &mut self.ops, session_id)?;
        host::process_events(db, &batch.process_events, session_id)?;
        host::processes(db, &batch.processes, session_id)?;
        stacks::stacks(db, &batch.stacks)?;
        host::losses(db, &batch.losses, session_id)?;
        gpu::samples(db, &batch.gpu_samples, session_id)?;
        gpu::errors(db, &batch.gpu_errors, session_id)?;
        gpu::rdma(db, &batch.rdma_events, session_id)?;
        kernel::waits(db, &batch.wait_events, &mut self.ops, session_id)?;
        kernel::requests(db, &batch.io_events, session_id)?;
        kernel::retransmits(db, &batch.tcp_events, session_id)?;
        kernel::kills(db, &batch.oom_events, session_id)?;
        host::neighbours(db, &batch.neighbours, session_id)?;
        threads::places(db, &batch.thread_places, session_id)?;
        host::memory_places(db, &batch.memory_places, session_id)?;
        stacks::between_calls(db, &batch.between_calls, &mut self.ops, session_id)?;
        stacks::cpu_samples(db, &batch.cpu_samples, &mut self.ops, session_id)?;
        marks::annotations(db, &batch.annotations, session_id)?;
        marks::servers(db, &batch.server_samples, session_id)?;
        probes::changes(db, &batch.watch_changes, session_id)?;
        probes::slices(db, &batch.slices, session_id)?;
        probes::tracing_costs(db, &batch.tracing_costs, session_id)
    }

    fn facts(&mut self, facts: &Facts) -> rusqlite::Result<()> {
        let (db, ops, session_id) = (&self.db, &mut self.ops, self.session_id);
        sums::blame(db, &facts.blame, ops, session_id)?;
        collectives::calls(db, &facts.collectives, ops, &self.libraries, session_id)?;
        collectives::waits(db, &facts.collective_waits, ops)?;
        graphs::kernels(db, &facts.kernels, session_id)?;
        graphs::graphs(db, &facts.graphs, session_id)?;
        graphs::nodes(db, &facts.graph_nodes, ops, session_id)?;
        memory::allocations(db, &facts.allocations, ops, session_id)?;
        memory::usage(db, &facts.memory, session_id)?;
        memory::failures(db, &facts.memory_failures, ops, session_id)?;
        work::cold_starts(db, &facts.cold_starts, ops, session_id)?;
        work::gpu_times(db, &facts.gpu_times, session_id)?;
        work::copies(db, &facts.copies, session_id)?;
        work::in_flight(db, &facts.in_flight, ops, session_id)
    }
}

/// Those that can be many.
fn rows(facts: &Facts) -> usize {
    facts.blame.len()
        + facts.collectives.len()
        + facts.kernels.len()
        + facts.graph_nodes.len()
        + facts.allocations.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Call, OpId};

    fn batch(from: u64) -> Batch {
        let call = |n| Call { start_ns: n, duration_ns: 1, op: OpId(1), pid: 1, tid: 1, ..Call::default() };
        Batch { calls: (from..from + 10_000).map(call).collect(), ..Batch::default() }
    }

    #[test]
    fn a_full_disk_is_said_so_and_loses_only_what_was_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.db");
        let mut writer =
            Writer::create_or_append(&path, &SessionInfo::default(), &[], &Options::default()).unwrap();
        writer.write(&batch(1), &Facts::default()).unwrap();
        writer.commit().unwrap();
        let pages: i64 = writer.db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        writer.db.pragma_update_and_check(None, "max_page_count", pages + 5, |_| Ok(())).unwrap();
        let failed =
            writer.write(&batch(20_000), &Facts::default()).and_then(|()| writer.commit()).unwrap_err();
        assert!(matches!(failed, StoreError::Full { .. }), "{failed}");
        assert!(failed.to_string().starts_with("the disk is full"), "{failed}");
        // Room again, and it goes on.
        writer.db.pragma_update_and_check(None, "max_page_count", pages + 5000, |_| Ok(())).unwrap();
        writer.write(&batch(40_000), &Facts::default()).unwrap();
        writer.commit().unwrap();
        let count = |from: i64| {
            let sql = "SELECT count(*) FROM calls WHERE timestamp_ns BETWEEN ?1 AND ?1 + 9999";
            writer.db.query_row(sql, [from], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((count(1), count(40_000)), (10_000, 10_000));
        writer.finish(1).unwrap();
    }
}
