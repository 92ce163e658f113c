//! Traces of several nodes in one file: every row of every table is kept, numbers that are only unique within a file
//! are made anew, and clocks are aligned by the collectives the nodes took part in together.

mod clocks;
mod copy;
mod numbers;
mod processes;
mod rewrite;
mod stacks;

pub use clocks::{Clock, ClockSource, Clocks, Offset};

use crate::reader::Maker;
use crate::{Reader, StoreError, file, schema};
use copy::Output;
use rusqlite::OpenFlags;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is only one file to merge; name at least two")]
    One,
    #[error("{path} is named twice; leave one out", path = path.display())]
    Twice { path: PathBuf },
    #[error("{b} holds a session that {a} holds, too: they are the same trace, or one was merged from the other; leave one out",
        a = a.display(), b = b.display())]
    Same { a: PathBuf, b: PathBuf },
    #[error("{path} is a trace of Ingero, which cannot be merged; record with `gpuwhy trace`", path = path.display())]
    Foreign { path: PathBuf },
    #[error("so many nodes use the same process numbers that there are no others left; merge fewer files")]
    Crowded,
    #[error("the merge was interrupted, and nothing was written")]
    Interrupted,
}

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedFile {
    pub file: PathBuf,
    /// Hosts, each once.
    pub nodes: Vec<String>,
    pub rows: u64,
    pub clock: Clock,
    /// What was added to process numbers that another node uses, too, and how many those are.
    pub pid_shift: i64,
    pub pids_shifted: usize,
}

/// Who is told how many rows are done, and says whether to go on.
pub type GoOn<'a> = dyn Fn(u64) -> bool + 'a;

/// Merges the files into a new one at `out`, which is empty or not there.
pub fn merge(
    files: &[PathBuf],
    out: &Path,
    how: Clocks<'_>,
    go_on: &GoOn<'_>,
) -> Result<Vec<MergedFile>, MergeError> {
    if files.len() < 2 {
        return Err(MergeError::One);
    }
    let mut readers = Vec::new();
    for path in files {
        let reader = Reader::open(path)?;
        if reader.origin().maker != Maker::Gpuwhy {
            return Err(MergeError::Foreign { path: path.clone() });
        }
        readers.push(reader);
    }
    all_differ(&readers)?;
    let clocks = match how {
        Clocks::Keep => vec![Clock::UNKNOWN; readers.len()],
        Clocks::Collectives => clocks::align(&readers, &[])?,
        Clocks::Measured(offsets) => clocks::align(&readers, offsets)?,
    };
    let db = file::open(out, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let at = |error| MergeError::Store(StoreError::at(out, error));
    let prepare = || -> rusqlite::Result<()> {
        db.pragma_update(None, "page_size", 8192)?;
        // A file that is not finished is thrown away, so there is nothing to undo.
        db.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
        db.pragma_update(None, "synchronous", "OFF")?;
        db.pragma_update(None, "cache_size", -64_000)?;
        db.set_prepared_statement_cache_capacity(schema::TABLES.len());
        schema::create(&db)
    };
    prepare().map_err(at)?;
    let mut output = Output::new(&db, out, go_on);
    db.execute_batch("BEGIN").map_err(at)?;
    let mut merged = Vec::new();
    for (reader, clock) in readers.iter().zip(clocks) {
        merged.push(reader.at_one_moment(|| output.add(reader, clock))?);
    }
    db.execute_batch("COMMIT").map_err(at)?;
    // What the disk cannot hold it says now.
    db.close().map_err(|(_, error)| at(error))?;
    Ok(merged)
}

/// Refuses a session that comes twice, as it was before any merge moved its clock.
fn all_differ(readers: &[Reader]) -> Result<(), MergeError> {
    let mut seen: HashMap<(String, i64, i64), &Path> = HashMap::new();
    let sql = "SELECT s.host, s.start_ns - ifnull(m.clock_shift_ns, 0), s.writer_pid FROM sessions s \
               LEFT JOIN merged m ON m.session_id = s.session_id";
    for reader in readers {
        reader.stream::<MergeError>(sql, &[], |record| {
            let host = record.text(0).unwrap_or_default().into_owned();
            let key = (host, record.integer(1).unwrap_or(0), record.integer(2).unwrap_or(0));
            match seen.insert(key, reader.path()) {
                Some(before) if before == reader.path() => Err(MergeError::Twice { path: before.into() }),
                Some(before) => Err(MergeError::Same { a: before.into(), b: reader.path().into() }),
                None => Ok(()),
            }
        })?;
    }
    Ok(())
}
