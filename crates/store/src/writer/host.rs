//! Processes, threads and what happened to them; what was lost of it.

use super::containers;
use super::row::{cached, known, nonzero, number, put};
use crate::schema::Table;
use crate::schema::host::{MEMORY_PLACES, NEIGHBOURS, PROCESSES, THREADS};
use gpuwhy_model::{Loss, MemoryPlace, Neighbour, Process, ProcessEvent, ProcessEventKind, ThreadPlace};
use rusqlite::{Connection, params};

/// Columns that are one statement, by the one that says who made it: they are replaced together.
const TOGETHER: &[(&str, &[&str])] = &[
    ("rank_source", &["rank", "local_rank", "world_size", "local_world_size", "node_rank"]),
    ("job_system", &["job_id", "job_step", "job_name", "job_user", "job_queue"]),
];

/// A later row completes an earlier one of the same process: what it does not know keeps its value.
fn completing(table: &Table) -> String {
    table.on_conflict(|column| {
        let known = format!("coalesce(excluded.{column}, {}.{column})", table.name);
        match TOGETHER.iter().find(|(_, columns)| columns.contains(&column)) {
            Some((told, _)) => {
                format!(
                    "{column} = CASE WHEN excluded.{told} IS NULL THEN {known} ELSE excluded.{column} END"
                )
            }
            None => format!("{column} = {known}"),
        }
    })
}

pub(super) fn processes(db: &Connection, processes: &[Process], session_id: i64) -> rusqlite::Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let mut upsert = cached(db, PROCESSES.name, completing)?;
    for p in processes {
        // A row that knows neither program nor command line does not know the user either.
        let uid = Some(p.uid).filter(|_| !(p.exe.is_empty() && p.cmdline.is_empty()));
        put!(
            upsert,
            PROCESSES,
            "pid" = p.pid,
            "start_ns" = p.start_ns as i64,
            "end_ns" = number(p.end_ns),
            "exit_code" = p.exit_code,
            "parent_pid" = nonzero(p.parent_pid.into()),
            "comm" = known(&p.comm),
            "cmdline" = known(&p.cmdline),
            "exe" = known(&p.exe),
            "uid" = uid,
            "cgroup_id" = nonzero(p.cgroup_id),
            "cgroup" = known(&p.cgroup),
            "container_id" = p.container_id.as_deref(),
            "rank" = p.rank,
            "local_rank" = p.local_rank,
            "world_size" = p.world_size,
            "session_id" = session_id,
            "rank_source" = p.rank_source.as_deref(),
            "local_world_size" = p.local_world_size,
            "node_rank" = p.node_rank,
            "tenant" = known(&p.tenant),
            "pod" = p.pod.as_deref(),
            "namespace" = p.namespace.as_deref(),
            "job_system" = p.job_system.as_deref(),
            "job_id" = p.job_id.as_deref(),
            "job_step" = p.job_step.as_deref(),
            "job_name" = p.job_name.as_deref(),
            "job_user" = p.job_user.as_deref(),
            "job_queue" = p.job_queue.as_deref(),
            "unit" = p.unit.as_deref(),
            "cpus_allowed" = p.cpus_allowed.as_deref(),
            "mems_allowed" = p.mems_allowed.as_deref(),
        );
    }
    drop(upsert);
    containers::containers(db, processes, session_id)
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
    let mut insert = db.prepare_cached(&THREADS.insert_sql("INSERT", 1))?;
    put!(
        insert,
        THREADS,
        "pid" = pid,
        "tid" = tid,
        "start_ns" = start,
        "end_ns" = end,
        "comm" = comm,
        "session_id" = session_id,
    );
    Ok(())
}

/// The latest; a thread that was not seen to start gets its row now.
pub(super) fn thread_places(
    db: &Connection,
    places: &[ThreadPlace],
    session_id: i64,
) -> rusqlite::Result<()> {
    for place in places {
        let mut update = db.prepare_cached(
            "UPDATE threads SET cpu = ?3, numa_node = ?4, migrations = ?5, node_migrations = ?6 \
             WHERE pid = ?1 AND tid = ?2 AND end_ns IS NULL",
        )?;
        let row = params![
            place.pid,
            place.tid,
            place.cpu,
            place.node,
            place.migrations as i64,
            place.node_migrations as i64
        ];
        if update.execute(row)? == 0 {
            add(db, place.pid, place.tid, None, None, None, session_id)?;
            update.execute(row)?;
        }
    }
    Ok(())
}

pub(super) fn neighbours(db: &Connection, neighbours: &[Neighbour], session_id: i64) -> rusqlite::Result<()> {
    for neighbour in neighbours {
        let mut insert = db.prepare_cached(&NEIGHBOURS.insert_sql("INSERT", 1))?;
        put!(
            insert,
            NEIGHBOURS,
            "pid" = neighbour.pid,
            "comm" = &neighbour.comm,
            "cgroup_id" = nonzero(neighbour.cgroup_id),
            "cgroup" = known(&neighbour.cgroup),
            "tenant" = known(&neighbour.tenant),
            "first_seen_ns" = neighbour.first_seen_ns as i64,
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn memory_places(
    db: &Connection,
    places: &[MemoryPlace],
    session_id: i64,
) -> rusqlite::Result<()> {
    for place in places {
        for (node, bytes) in &place.nodes {
            let mut insert = db.prepare_cached(&MEMORY_PLACES.insert_sql("INSERT", 1))?;
            put!(
                insert,
                MEMORY_PLACES,
                "timestamp_ns" = place.time_ns as i64,
                "pid" = place.pid,
                "numa_node" = *node,
                "bytes" = *bytes as i64,
                "gpu" = place.gpu,
                "gpu_node" = place.gpu_node,
                "session_id" = session_id,
            );
        }
    }
    Ok(())
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
