//! Processes, threads and what happened to them; what was lost of it.

use super::row::{cached, known, nonzero};
use crate::schema::Table;
use crate::schema::host::PROCESSES;
use gpuwhy_model::{Loss, Process, ProcessEvent, ProcessEventKind};
use rusqlite::{Connection, params};

/// A later row completes an earlier one of the same process: what it does not know keeps its value.
pub(super) fn processes(db: &Connection, processes: &[Process], session_id: i64) -> rusqlite::Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let mut upsert = cached(db, PROCESSES.name, Table::upsert_sql)?;
    for p in processes {
        // A row that knows neither program nor command line does not know the user either.
        let uid = Some(p.uid).filter(|_| !(p.exe.is_empty() && p.cmdline.is_empty()));
        upsert.execute(params![
            p.pid,
            p.start_ns as i64,
            p.end_ns.map(|ns| ns as i64),
            p.exit_code,
            nonzero(p.parent_pid.into()),
            known(&p.comm),
            known(&p.cmdline),
            known(&p.exe),
            uid,
            nonzero(p.cgroup_id),
            known(&p.cgroup),
            p.container_id,
            p.rank,
            p.local_rank,
            p.world_size,
            session_id,
        ])?;
    }
    Ok(())
}

pub(super) fn process_events(
    db: &Connection,
    events: &[ProcessEvent],
    session_id: i64,
) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut insert = cached(db, "process_events", |table| table.insert_sql("INSERT", 1))?;
    for event in events {
        let exit = matches!(event.kind, ProcessEventKind::Exit | ProcessEventKind::ThreadExit);
        insert.execute(params![
            event.time_ns as i64,
            event.kind.name(),
            event.pid,
            event.tid,
            nonzero(event.child.into()),
            Some(event.exit_code).filter(|_| exit),
            nonzero(event.cgroup_id),
            known(&event.comm),
            session_id,
        ])?;
        threads(db, event, session_id)?;
    }
    Ok(())
}

fn threads(db: &Connection, event: &ProcessEvent, session_id: i64) -> rusqlite::Result<()> {
    let time = event.time_ns as i64;
    let comm = known(&event.comm);
    match event.kind {
        ProcessEventKind::Thread => started(db, event.pid, event.child, time, comm, session_id),
        ProcessEventKind::Fork => started(db, event.child, event.child, time, comm, session_id),
        ProcessEventKind::Seen => seen(db, event.pid, event.tid, comm, session_id),
        ProcessEventKind::Exec => {
            // All other threads are gone, and the one that called takes the process's own number.
            end_threads(db, event.pid, true, time)?;
            seen(db, event.pid, event.pid, comm, session_id)
        }
        ProcessEventKind::ThreadExit => {
            if end_thread(db, event.pid, event.tid, time)? == 0 {
                add(db, event.pid, event.tid, None, Some(time), comm, session_id)?;
            }
            Ok(())
        }
        ProcessEventKind::Exit => {
            end_threads(db, event.pid, false, time)?;
            db.prepare_cached(
                "UPDATE processes SET end_ns = ?1, exit_code = coalesce(exit_code, ?3) \
                 WHERE pid = ?2 AND end_ns IS NULL AND start_ns <= ?1",
            )?
            .execute(params![time, event.pid, event.exit_code])
            .map(drop)
        }
    }
}

/// A number that is given anew ends whoever had it: that thread's exit was not seen.
fn started(
    db: &Connection,
    pid: u32,
    tid: u32,
    time: i64,
    comm: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    end_thread(db, pid, tid, time)?;
    add(db, pid, tid, Some(time), None, comm, session_id)
}

fn seen(db: &Connection, pid: u32, tid: u32, comm: Option<&str>, session_id: i64) -> rusqlite::Result<()> {
    let known = db
        .prepare_cached(
            "UPDATE threads SET comm = coalesce(?3, comm) WHERE pid = ?1 AND tid = ?2 AND end_ns IS NULL",
        )?
        .execute(params![pid, tid, comm])?;
    if known == 0 {
        add(db, pid, tid, None, None, comm, session_id)?;
    }
    Ok(())
}

fn end_thread(db: &Connection, pid: u32, tid: u32, time: i64) -> rusqlite::Result<usize> {
    db.prepare_cached("UPDATE threads SET end_ns = ?1 WHERE pid = ?2 AND tid = ?3 AND end_ns IS NULL")?
        .execute(params![time, pid, tid])
}

fn end_threads(db: &Connection, pid: u32, but_the_first: bool, time: i64) -> rusqlite::Result<usize> {
    db.prepare_cached(
        "UPDATE threads SET end_ns = ?1 WHERE pid = ?2 AND (tid <> ?2 OR NOT ?3) AND end_ns IS NULL",
    )?
    .execute(params![time, pid, but_the_first])
}

fn add(
    db: &Connection,
    pid: u32,
    tid: u32,
    start: Option<i64>,
    end: Option<i64>,
    comm: Option<&str>,
    session_id: i64,
) -> rusqlite::Result<()> {
    cached(db, "threads", |table| table.insert_sql("INSERT", 1))?
        .execute(params![pid, tid, start, end, comm, session_id])
        .map(drop)
}

pub(super) fn losses(db: &Connection, losses: &[Loss], session_id: i64) -> rusqlite::Result<()> {
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
