//! Parquet: a file for each table and view, columns and types as the trace has them. What a column means is in each
//! file's metadata (`schema_doc`), and what the trace does not cover, too (`gpuwhy`).

mod file;
mod group;

use crate::about::About;
use crate::source::ROWS_A_LOOK;
use crate::{ExportError, Exported, Files, Source};
use file::File;
use gpuwhy_store::schema::{Column, TABLES, VIEWS};
use gpuwhy_store::{Filter, Reader, Value};
use group::Group;
use parquet::errors::ParquetError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Rows that are held before they are written.
const ROWS_A_GROUP: usize = 1 << 16;

/// Groups between the thread that reads and the one that encodes.
const GROUPS_WAITING: usize = 1;

/// Tables at a time, at most: each holds some groups of rows.
const MAX_CONCURRENT: usize = 4;

/// From one look whether somebody wants to stop to the next, when only others work.
const LOOK: Duration = Duration::from_millis(50);

/// A row for each node of each launch: it follows from `calls`, `graphs` and `graph_nodes`, and can be larger than all
/// of them.
const LEFT_OUT: [&str; 1] = ["graph_launches"];

pub(crate) fn write(source: &Source<'_>, files: &mut Files<'_>) -> Result<Exported, ExportError> {
    // One more than there are CPUs: tables differ in size, and reading waits for the disk now and then.
    let at_a_time = thread::available_parallelism().map_or(1, |cpus| cpus.get() + 1).min(MAX_CONCURRENT);
    source.reader.at_one_moment_with(at_a_time - 1, |others| {
        let work = Work {
            tables: Mutex::new(tables(source, files)?),
            filter: &source.filter,
            rows: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        thread::scope(|threads| {
            let work = &work;
            let helpers: Vec<_> =
                others.into_iter().map(|other| threads.spawn(move || work.until_done(&other, &|_| true))).collect();
            let mut done = vec![work.until_done(source.reader, source.go_on)];
            while !helpers.iter().all(thread::ScopedJoinHandle::is_finished) {
                if !(source.go_on)(work.rows.load(Ordering::Relaxed)) {
                    work.is_over.store(true, Ordering::Relaxed);
                }
                thread::sleep(LOOK);
            }
            done.extend(helpers.into_iter().map(joined));
            // One that fails stops the others.
            let is_why = |done: &Result<(), _>| matches!(done, Err(error) if !matches!(error, ExportError::Interrupted));
            let first = done.iter().position(is_why).unwrap_or(0);
            done.swap(0, first);
            done.into_iter().collect::<Result<(), _>>()
        })?;
        Ok(Exported { rows: work.rows.into_inner() })
    })
}

fn tables(source: &Source<'_>, files: &mut Files<'_>) -> Result<VecDeque<Table>, ExportError> {
    let about = serde_json::to_string(&About::of(source)?)?;
    let tables = TABLES.iter().map(|table| (table.name, table.about, table.columns));
    let views = VIEWS.iter().map(|view| (view.name, view.about, view.columns));
    let written = tables.chain(views).filter(|(name, ..)| !LEFT_OUT.contains(name));
    let opened = written.map(|(name, meaning, columns)| {
        let file = file::open(files(&format!("{name}.parquet"))?, meaning, columns, &about)?;
        Ok(Table { name, columns, file })
    });
    opened.collect()
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A table that is still to be written.
struct Table {
    name: &'static str,
    columns: &'static [Column],
    file: File,
}

/// What all threads work on.
struct Work<'a> {
    tables: Mutex<VecDeque<Table>>,
    filter: &'a Filter,
    rows: AtomicU64,
    /// Somebody failed or wants to stop.
    is_over: AtomicBool,
}

impl Work<'_> {
    /// One table after the other, as long as there are any.
    fn until_done(&self, reader: &Reader, go_on: &dyn Fn(u64) -> bool) -> Result<(), ExportError> {
        let next = || self.tables.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(table) = next() {
            let written = self.table(table, reader, go_on);
            if written.is_err() {
                self.is_over.store(true, Ordering::Relaxed);
                return written;
            }
        }
        Ok(())
    }

    /// One thread reads rows, another one encodes them.
    fn table(&self, table: Table, reader: &Reader, go_on: &dyn Fn(u64) -> bool) -> Result<(), ExportError> {
        let Table { name, columns, mut file } = table;
        thread::scope(|threads| {
            let (read, encode) = sync_channel::<Group>(GROUPS_WAITING);
            let encoder = threads.spawn(move || -> Result<(), ParquetError> {
                for group in encode {
                    group.write(&mut file)?;
                }
                file.close().map(drop)
            });
            let mut group = Group::new(columns);
            let mut rows = 0;
            let (sql, values) = select(name, columns, self.filter);
            // Nobody takes a group any more where the encoder has failed; it says why.
            let gone = |_| ExportError::Interrupted;
            let mut reading = reader.stream::<ExportError>(&sql, &values, |record| {
                rows += 1;
                if rows == ROWS_A_LOOK {
                    self.count(std::mem::take(&mut rows), go_on)?;
                }
                group.push(&record);
                if group.rows == ROWS_A_GROUP {
                    read.send(std::mem::replace(&mut group, Group::new(columns))).map_err(gone)?;
                }
                Ok(())
            });
            if reading.is_ok() && group.rows > 0 {
                reading = read.send(group).map_err(gone);
            }
            drop(read);
            joined(encoder)?;
            reading.and_then(|()| self.count(rows, go_on))
        })
    }

    fn count(&self, rows: u64, go_on: &dyn Fn(u64) -> bool) -> Result<(), ExportError> {
        let all = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        match go_on(all) && !self.is_over.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(ExportError::Interrupted),
        }
    }
}

/// Rows of the process and the time, of tables that have such.
fn select(name: &str, columns: &[Column], filter: &Filter) -> (String, Vec<Value>) {
    let has = |name: &str| columns.iter().any(|column| column.name == name);
    let time = ["timestamp_ns", "window_start_ns"].into_iter().find(|time| has(time));
    let mine = Filter {
        op: None,
        pid: filter.pid.filter(|_| has("pid")),
        from_ns: filter.from_ns.filter(|_| time.is_some()),
        to_ns: filter.to_ns.filter(|_| time.is_some()),
    };
    let (clause, values) = mine.clause(time.unwrap_or_default());
    let list: Vec<&str> = columns.iter().map(|column| column.name).collect();
    (format!("SELECT {} FROM {name}{clause}", list.join(", ")), values)
}
