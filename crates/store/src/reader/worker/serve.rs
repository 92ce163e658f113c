//! The worker's side: limits first, then the file, then the statement.

use super::{GRACE, HEAP, wire};
use crate::reader::guard;
use crate::{Reader, StoreError};
use gpuwhy_confine::{Limits, die_with_parent};
use rusqlite::Connection;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
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
        .and_then(|reader| reader.sql(&question.sql, &limits));
    let mut out = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    match answer {
        Ok(answer) => wire::write_answer(&answer, &mut out),
        Err(error) => wire::write_refusal(&error, &mut out),
    }?;
    out.flush()
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
