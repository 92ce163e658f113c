//! The worker's side: limits first, then the file, then the statement.

use super::{GRACE, HEAP, wire};
use crate::reader::guard;
use crate::{Reader, StoreError};
use gpuwhy_confine::{Limits, Purpose, confine, die_with_parent};
use rusqlite::Connection;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All of the process: the program itself, SQLite's heap, an answer and its encoding.
const ADDRESS_SPACE: u64 = 1 << 30;
/// Between two looks at what was written, sorting may write a little more.
const SPILL_SLACK: u64 = 256 << 20;
/// A question is no longer: a statement and four numbers.
const LARGEST_QUESTION: u64 = 4 << 20;

/// Answers one statement about the file, which is read from standard input, on standard output. For a process that does nothing
/// else: what is limited here is limited for good.
pub fn serve_statement(file: &Path) -> std::io::Result<()> {
    let mut question = Vec::new();
    std::io::stdin().lock().take(LARGEST_QUESTION).read_to_end(&mut question)?;
    let question: wire::Question = serde_json::from_slice(&question)?;
    let limits = question.limits();
    limit(limits.time, limits.spill)?;
    let heap = || -> rusqlite::Result<()> { guard::limit_heap(&Connection::open_in_memory()?, HEAP) };
    let answer = heap()
        .map_err(|error| StoreError::at(file, error))
        .and_then(|()| Reader::open(file))
        .and_then(|reader| {
            confine(&purpose(&reader, file));
            // A change of the user undoes it.
            die_with_parent().map_err(|error| StoreError::Worker(error.to_string()))?;
            reader.sql(&question.sql, &limits)
        });
    let mut out = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    match answer {
        Ok(answer) => wire::write_answer(&answer, &mut out),
        Err(error) => wire::write_refusal(&error, &mut out),
    }?;
    out.flush()
}

/// The file is open, and nothing else is needed but a place for what is sorted. A copy is taken away by who made it.
fn purpose(reader: &Reader, file: &Path) -> Purpose {
    if reader.is_copy() {
        return Purpose::Store(std::env::temp_dir());
    }
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    // Where SQLite looks (sqlite3.c, unixTempFileDir).
    let usual = ["/var/tmp", "/usr/tmp", "/tmp"].into_iter().map(PathBuf::from);
    let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Purpose::Answer(named.chain(usual).chain([own.to_path_buf()]).collect())
}

/// The kernel's limits hold whatever the engine is doing.
fn limit(time: Duration, spill: u64) -> std::io::Result<()> {
    Limits {
        address_space: Some(ADDRESS_SPACE),
        cpu_seconds: Some((time + GRACE).as_secs() + 1),
        file_size: Some(spill.saturating_add(SPILL_SLACK)),
        ..Limits::default()
    }
    .set()?;
    // Nobody waits for the answer any more.
    die_with_parent()
}
