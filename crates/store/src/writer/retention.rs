//! Keeping the file within its size: the oldest rows go first, in small steps, and what went is recorded.

use crate::schema::TABLES;
use rusqlite::{Connection, OptionalExtension, params};
use std::time::{Duration, Instant};

const PAGE: u64 = 8192;
/// The empty schema alone takes more than half a megabyte.
pub const MIN_SIZE: u64 = 4 << 20;
/// The most calls that go in one step, which blocks the writer for a few hundredths of a second.
const LARGEST_STEP: usize = 20_000;
/// Beyond what must be deleted at once, deleting goes on for so long a commit.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Retention {
    /// Deleting begins above this many bytes. The log lies beside the file and gets the rest of the limit.
    limit: u64,
    /// And ends below this many.
    target: u64,
    /// Calls in one transaction.
    pub(super) rows_a_commit: usize,
    /// Calls deleted in one step: the pages it touches lie in the log until it is done.
    step: usize,
    /// The log is copied into the file when it has so many pages.
    pub(super) log_pages: u64,
    /// The row of `retention` that is being counted up, until the target is reached.
    episode: Option<i64>,
}

impl Retention {
    pub(super) fn new(max_size: u64) -> Retention {
        let max_size = max_size.max(MIN_SIZE);
        let limit = max_size - max_size / 20;
        // About 128 bytes a call with its index entry: one percent of the limit.
        let rows_a_commit = (max_size / 100 / 128).clamp(256, 200_000) as usize;
        Retention {
            limit,
            target: limit - limit / 10,
            rows_a_commit,
            step: (2 * rows_a_commit).min(LARGEST_STEP),
            log_pages: (max_size / 64 / PAGE).clamp(8, 1000),
            episode: None,
        }
    }

    /// To be called between transactions.
    pub(super) fn enforce(&mut self, db: &Connection, now_ns: u64) -> rusqlite::Result<()> {
        let begin = Instant::now();
        loop {
            let used = used_bytes(db)?;
            let enough = if self.episode.is_some() { self.target } else { self.limit };
            if used <= enough {
                self.episode = None;
                return Ok(());
            }
            if used <= self.limit && begin.elapsed() > PATIENCE {
                return Ok(());
            }
            let Some(before_ns) = next_cut(db, self.step)? else { return Ok(()) };
            self.delete_before(db, before_ns, now_ns)?;
        }
    }

    fn delete_before(&mut self, db: &Connection, before_ns: i64, now_ns: u64) -> rusqlite::Result<()> {
        let tx = db.unchecked_transaction()?;
        let mut rows = forget_processes(&tx, before_ns)? + forget_graphs(&tx, before_ns)?;
        for table in TABLES {
            let Some(age) = table.age else { continue };
            let sql = format!("DELETE FROM {} WHERE {age} < ?", table.name);
            rows += tx.prepare_cached(&sql)?.execute([before_ns])?;
        }
        match self.episode {
            Some(id) => {
                tx.prepare_cached(
                    "UPDATE retention SET time_ns = ?, before_ns = ?, rows = rows + ? WHERE rowid = ?",
                )?
                .execute(params![now_ns as i64, before_ns, rows as i64, id])?;
            }
            None => {
                tx.prepare_cached("INSERT INTO retention (time_ns, before_ns, rows) VALUES (?, ?, ?)")?
                    .execute(params![now_ns as i64, before_ns, rows as i64])?;
                self.episode = Some(tx.last_insert_rowid());
            }
        }
        tx.commit()
    }
}

fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let number = |sql| db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
    let pages = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok((pages * number("PRAGMA page_size")?).max(0) as u64)
}

/// The time before which rows are to be deleted next: a step of calls, or else a tenth of the time on file.
fn next_cut(db: &Connection, step: usize) -> rusqlite::Result<Option<i64>> {
    let call: Option<i64> = db
        .prepare_cached("SELECT timestamp_ns FROM calls ORDER BY timestamp_ns LIMIT 1 OFFSET ?")?
        .query_row([step as i64], |row| row.get(0))
        .optional()?;
    let (mut oldest, mut newest) = (None::<i64>, None::<i64>);
    for table in TABLES {
        let Some(age) = table.age else { continue };
        // Each end by itself: only then is it looked up in the index.
        let end = |which: &str| {
            db.prepare_cached(&format!("SELECT {which}({age}) FROM {}", table.name))?
                .query_row([], |row| row.get::<_, Option<i64>>(0))
        };
        let Some(first) = end("min")? else { continue };
        oldest = Some(oldest.map_or(first, |oldest| oldest.min(first)));
        newest = newest.max(end("max")?);
    }
    let (Some(oldest), Some(newest)) = (oldest, newest) else { return Ok(None) };
    let by_time = oldest.saturating_add((newest - oldest) / 10);
    Ok(Some(call.unwrap_or(by_time).max(oldest.saturating_add(1))))
}

/// What belongs to processes that had ended by then, and has no time of its own.
fn forget_processes(db: &Connection, before_ns: i64) -> rusqlite::Result<usize> {
    let mut find = db.prepare_cached(
        "SELECT DISTINCT pid FROM processes p WHERE end_ns < ?1 AND NOT EXISTS \
         (SELECT 1 FROM processes q WHERE q.pid = p.pid AND (q.end_ns IS NULL OR q.end_ns >= ?1))",
    )?;
    let pids: Vec<u32> = find.query_map([before_ns], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut rows = 0;
    for pid in pids {
        for sql in [
            "DELETE FROM frames WHERE stack_id IN (SELECT stack_id FROM stacks WHERE pid = ?)",
            "DELETE FROM stacks WHERE pid = ?",
            "DELETE FROM kernels WHERE pid = ?",
            "DELETE FROM graph_nodes WHERE pid = ?",
            "DELETE FROM graphs WHERE pid = ?",
            "DELETE FROM allocations WHERE pid = ?",
        ] {
            rows += db.prepare_cached(sql)?.execute([pid])?;
        }
    }
    Ok(rows)
}

/// The nodes of graphs that were destroyed by then; the graphs themselves are dated.
fn forget_graphs(db: &Connection, before_ns: i64) -> rusqlite::Result<usize> {
    let mut find = db.prepare_cached("SELECT pid, graph, created_ns FROM graphs WHERE destroyed_ns < ?")?;
    let graphs: Vec<(u32, String, i64)> = find
        .query_map([before_ns], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    // One by one: only then does SQLite look them up by the whole key.
    let mut delete =
        db.prepare_cached("DELETE FROM graph_nodes WHERE pid = ? AND graph = ? AND created_ns = ?")?;
    graphs.into_iter().map(|key| delete.execute(key)).sum()
}
