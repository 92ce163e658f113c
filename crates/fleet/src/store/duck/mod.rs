//! DuckDB: one file, which `duckdb` opens too. One thread writes, in groups; questions have connections of their own.
//!
//! A group is one transaction: its rows, the ids of its batches and how far the journal is in it are on disk together. What
//! a crash leaves is DuckDB's own log, which is played back when the file is opened.

mod ask;
mod columns;
mod forget;
mod gate;
mod open;
mod process;
mod schema;
mod select;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
mod value;
mod worker;
mod write;

pub use process::SQL_WORKER;
pub use worker::sql_worker;

use crate::journal::Position;
use crate::point::{Batch, BatchId, Collective};
use crate::store::{
    BlameShare, Filter, Forgotten, RankValue, Reach, Retention, Rows, Sink, Stop, Store, StoreError,
};
use duckdb::Connection;
use gate::Gate;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A checkpoint writes unfinished row groups again, however little came. It is made when so much is in DuckDB's log,
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// and comes before those who read the file when there is so many times that.
const URGENT: u64 = 4;
/// Longer than any of those may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// How much of the machine DuckDB may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuckOptions {
    /// As `2GB`.
    pub memory: String,
    pub threads: usize,
    /// Of temporary files, as `8GB`.
    pub temporary: String,
    /// What a statement that somebody else wrote may take.
    pub sql_memory_bytes: u64,
    /// The program that runs such statements, as its subcommand [`SQL_WORKER`]; this one where none is named.
    pub worker: Option<PathBuf>,
}

impl Default for DuckOptions {
    fn default() -> DuckOptions {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        DuckOptions {
            memory: "2GB".into(),
            threads,
            temporary: "8GB".into(),
            sql_memory_bytes: 1 << 30,
            worker: None,
        }
    }
}

#[derive(Debug)]
pub struct DuckStore {
    path: PathBuf,
    options: DuckOptions,
    /// None after a failure that DuckDB does not get over: it is opened anew.
    open: Mutex<Option<Open>>,
    gate: Gate,
    /// Held as long as this lives: there is no second writer.
    _lock: File,
}

#[derive(Debug)]
struct Open {
    writer: Connection,
    /// When each node was first and last written, by cluster and node.
    nodes: HashMap<write::Key, write::Node>,
    nodes_written: std::time::Instant,
    /// Others may read the file, and nobody else may write to it. Were it closed, the kernel would forget DuckDB's own lock.
    _shared: File,
}

impl DuckStore {
    /// Opens the store in a folder, or makes it.
    pub fn open(folder: &Path, options: DuckOptions) -> Result<DuckStore, StoreError> {
        let lock = open::lock(folder)?;
        let path = folder.join("fleet.duckdb");
        let opened = open::open(&path, &options)?;
        snapshot::forget_all(&path);
        Ok(DuckStore { path, options, open: Mutex::new(Some(opened)), gate: Gate::default(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends events with nothing around it but a transaction, as the benchmark's measure of what DuckDB itself can do.
    pub fn append_bare(&self, events: &[crate::Event]) -> Result<(), StoreError> {
        self.with(|open| {
            open.writer.execute_batch("BEGIN TRANSACTION")?;
            let mut appender = open.writer.appender("events")?;
            columns::append(&mut appender, events.iter().map(|event| (event, 0)))?;
            appender.flush()?;
            drop(appender);
            open.writer.execute_batch("COMMIT")
        })
    }

    /// Fills it with so many rows of an hour of 4096 ranks, for the benchmark.
    pub fn fill(&self, rows: u64) -> Result<(), StoreError> {
        self.with(|open| {
            let sql = format!(
                "INSERT INTO events SELECT 1800000000000000000 + range * (3600000000000 // {rows}), 'training', \
                 'node' || (range % 512), 'gpuwhy.rank.' || (['health', 'own_seconds', 'idle_ratio', 'step_seconds', 'blame_ratio'])[1 + range // 4096 % 5], \
                 range % 4096, 4096, random(), NULL, NULL, 'job', 'gauge', 0 FROM range({rows})"
            );
            open.writer.execute_batch(&sql)
        })
    }

    /// With what is open, opening it anew where it was given up.
    fn with<T>(&self, work: impl FnOnce(&mut Open) -> Result<T, duckdb::Error>) -> Result<T, StoreError> {
        let mut open = self.lock();
        if open.is_none() {
            *open = Some(open::open(&self.path, &self.options)?);
        }
        let Some(opened) = open.as_mut() else { return Err(StoreError::Write("it is not open".into())) };
        match work(opened) {
            Ok(done) => Ok(done),
            Err(error) => {
                // What was begun is undone, and where even that fails, so does everything until the file is opened again.
                if opened.writer.execute_batch("ROLLBACK").is_err() && !opened.writer.is_autocommit()
                    || is_fatal(&error)
                {
                    *open = None;
                }
                let sentence = ask::sentence(&error);
                Err(match is_of_rows(&sentence) {
                    true => StoreError::Refused(sentence),
                    false => StoreError::Write(sentence),
                })
            }
        }
    }

    /// Writes DuckDB's log into the file, unless somebody reads that for longer than this. Whoever has its turn of the gate may
    /// wait for the file, and not the other way round.
    fn checkpoint(&self, patience: Duration) -> Result<(), StoreError> {
        match self.gate.checkpoint(patience) {
            Some(_turn) => self.with(|open| open.writer.execute_batch("CHECKPOINT")),
            None => Ok(()),
        }
    }

    /// A connection of its own.
    fn reader(&self) -> Result<Connection, StoreError> {
        let mut open = self.lock();
        if open.is_none() {
            *open = Some(open::open(&self.path, &self.options)?);
        }
        let cloned = open.as_ref().map(|open| open.writer.try_clone());
        cloned.transpose().ok().flatten().ok_or_else(|| StoreError::Sql("the store is not open".into()))
    }
}

/// What DuckDB says of values that it cannot hold, whatever the disk is like.
fn is_of_rows(sentence: &str) -> bool {
    let kinds = ["Conversion Error", "Constraint Error", "Invalid Input Error", "Out of Range Error"];
    kinds.iter().any(|kind| sentence.starts_with(kind))
}

fn is_fatal(error: &duckdb::Error) -> bool {
    let message = error.to_string();
    message.contains("FATAL") || message.contains("invalidated")
}

impl Sink for DuckStore {
    fn write(&self, group: &[&Batch], to: Position) -> Result<(), StoreError> {
        self.with(|open| write::group(open, group, to))?;
        let bytes = snapshot::log_bytes(&self.path);
        if bytes > CHECKPOINT_BYTES {
            let patience = if bytes > URGENT * CHECKPOINT_BYTES { PATIENCE } else { Duration::ZERO };
            // The group is written. Where a checkpoint cannot be made now, it is tried after the next one.
            let _ = self.checkpoint(patience);
        }
        Ok(())
    }

    fn stored(&self) -> Result<Position, StoreError> {
        self.with(|open| {
            open.writer.query_row("SELECT segment, position FROM journal", [], |row| {
                Ok(Position { segment: row.get(0)?, offset: row.get(1)? })
            })
        })
    }

    fn recent(&self) -> Result<Vec<BatchId>, StoreError> {
        self.with(|open| {
            let mut statement = open.writer.prepare("SELECT id FROM batches ORDER BY received_ns")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn forget_batches(&self, before_ns: i64) -> Result<(), StoreError> {
        self.with(|open| {
            open.writer.execute("DELETE FROM batches WHERE received_ns < ?", [before_ns]).map(drop)
        })
    }

    fn forget(&self, now_ns: i64, keep: Retention) -> Result<Forgotten, StoreError> {
        let (forgotten, is_for_room) = self.with(|open| forget::forget(open, now_ns, keep))?;
        if forgotten.rows > 0 {
            // Only then is the room of what was deleted free; more would be deleted for it otherwise.
            self.checkpoint(if is_for_room { PATIENCE } else { Duration::ZERO })?;
        }
        Ok(forgotten)
    }
}

impl Store for DuckStore {
    fn events(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
        self.select(
            "SELECT * EXCLUDE (sender) FROM events",
            filter,
            " ORDER BY timestamp_ns DESC",
            reach,
            stop,
        )
    }

    fn findings(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
        self.select(
            "SELECT * EXCLUDE (sender) FROM findings",
            filter,
            " ORDER BY timestamp_ns DESC",
            reach,
            stop,
        )
    }

    fn nodes(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
        let filter = Filter { from_ns: None, to_ns: None, ..filter.clone() };
        self.select("SELECT * FROM nodes", &filter, " ORDER BY cluster_id, node_id", reach, stop)
    }

    fn collectives(&self, filter: &Filter, most: usize, stop: &Stop) -> Result<Vec<Collective>, StoreError> {
        self.collectives_of(filter, most, stop)
    }

    fn by_rank(&self, filter: &Filter, stop: &Stop) -> Result<Vec<RankValue>, StoreError> {
        self.ranks_of(filter, stop)
    }

    fn blame(&self, filter: &Filter, stop: &Stop) -> Result<Vec<BlameShare>, StoreError> {
        self.blame_of(filter, stop)
    }

    fn newest_ns(&self, filter: &Filter, stop: &Stop) -> Result<Option<i64>, StoreError> {
        let rows = self.select("SELECT max(timestamp_ns) FROM events", filter, "", Reach::default(), stop)?;
        Ok(rows.rows.first().and_then(|row| row.first()?.as_i64()))
    }

    fn sql(&self, sql: &str, reach: Reach, stop: &Stop) -> Result<Rows, StoreError> {
        #[cfg(test)]
        if self.options.worker.is_none() {
            // There is no subcommand in the program of a test.
            return ask::foreign(&self.reader()?, sql, reach, stop);
        }
        self.in_process(sql, reach, stop)
    }

    fn analysis(
        &self,
        sql: &str,
        clusters: Option<&[String]>,
        reach: Reach,
        stop: &Stop,
    ) -> Result<Rows, StoreError> {
        self.ours(sql, clusters, reach, stop)
    }
}
