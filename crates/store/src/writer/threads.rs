//! Threads: when they began and ended, and where they ran.

use super::row::{insert_into, known, put};
use crate::schema::host::THREADS;
use gpuwhy_model::{ProcessEvent, ProcessEventKind, ThreadPlace};
use rusqlite::{CachedStatement, Connection, params};

/// The rows of threads, as events and samples tell of them.
pub(super) struct Threads<'c> {
    db: &'c Connection,
    insert: CachedStatement<'c>,
    session_id: i64,
}

impl<'c> Threads<'c> {
    pub(super) fn of(db: &'c Connection, session_id: i64) -> rusqlite::Result<Threads<'c>> {
        Ok(Threads { db, insert: insert_into(db, &THREADS)?, session_id })
    }

    pub(super) fn emit(&mut self, event: &ProcessEvent) -> rusqlite::Result<()> {
        let time = event.time_ns as i64;
        let comm = known(&event.comm);
        match event.kind {
            ProcessEventKind::Thread => self.started(event.pid, event.child, time, comm),
            ProcessEventKind::Fork => self.started(event.child, event.child, time, comm),
            ProcessEventKind::Seen => self.seen(event.pid, event.tid, comm),
            ProcessEventKind::Exec => {
                // All other threads are gone, and the one that called takes the process's own number.
                self.end_all(event.pid, true, time)?;
                self.seen(event.pid, event.pid, comm)
            }
            ProcessEventKind::ThreadExit => match self.end(event.pid, event.tid, time)? {
                0 => self.add(event.pid, event.tid, None, Some(time), comm),
                _ => Ok(()),
            },
            ProcessEventKind::Exit => self.end_all(event.pid, false, time),
        }
    }

    /// A number that is given anew ends whoever had it: that thread's exit was not seen.
    fn started(&mut self, pid: u32, tid: u32, time: i64, comm: Option<&str>) -> rusqlite::Result<()> {
        self.end(pid, tid, time)?;
        self.add(pid, tid, Some(time), None, comm)
    }

    fn seen(&mut self, pid: u32, tid: u32, comm: Option<&str>) -> rusqlite::Result<()> {
        let known = self
            .db
            .prepare_cached(
                "UPDATE threads SET comm = coalesce(?3, comm) WHERE pid = ?1 AND tid = ?2 AND end_ns IS NULL",
            )?
            .execute(params![pid, tid, comm])?;
        if known == 0 {
            self.add(pid, tid, None, None, comm)?;
        }
        Ok(())
    }

    fn end(&self, pid: u32, tid: u32, time: i64) -> rusqlite::Result<usize> {
        self.db
            .prepare_cached("UPDATE threads SET end_ns = ?1 WHERE pid = ?2 AND tid = ?3 AND end_ns IS NULL")?
            .execute(params![time, pid, tid])
    }

    fn end_all(&self, pid: u32, but_the_first: bool, time: i64) -> rusqlite::Result<()> {
        self.db
            .prepare_cached(
                "UPDATE threads SET end_ns = ?1 WHERE pid = ?2 AND (tid <> ?2 OR NOT ?3) AND end_ns IS NULL",
            )?
            .execute(params![time, pid, but_the_first])
            .map(drop)
    }

    fn add(
        &mut self,
        pid: u32,
        tid: u32,
        start: Option<i64>,
        end: Option<i64>,
        comm: Option<&str>,
    ) -> rusqlite::Result<()> {
        put!(
            self.insert,
            THREADS,
            "pid" = pid,
            "tid" = tid,
            "start_ns" = start,
            "end_ns" = end,
            "comm" = comm,
            "session_id" = self.session_id,
        );
        Ok(())
    }
}

/// The latest; a thread that was not seen to start gets its row now.
pub(super) fn places(db: &Connection, places: &[ThreadPlace], session_id: i64) -> rusqlite::Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let mut threads = Threads::of(db, session_id)?;
    let mut update = db.prepare_cached(
        "UPDATE threads SET cpu = ?3, numa_node = ?4, migrations = ?5, node_migrations = ?6 \
         WHERE pid = ?1 AND tid = ?2 AND end_ns IS NULL",
    )?;
    for place in places {
        let row = params![
            place.pid,
            place.tid,
            place.cpu,
            place.node,
            place.migrations as i64,
            place.node_migrations as i64
        ];
        if update.execute(row)? == 0 {
            threads.add(place.pid, place.tid, None, None, None)?;
            update.execute(row)?;
        }
    }
    Ok(())
}
