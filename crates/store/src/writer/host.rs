//! Processes and what happened to them; what was lost of it.

use super::containers;
use super::row::{insert_into, known, nonzero, number, put};
use super::threads::Threads;
use crate::schema::Table;
use crate::schema::host::{LOSS, MEMORY_PLACES, NEIGHBOURS, PROCESS_EVENTS, PROCESSES};
use gpuwhy_model::{Loss, MemoryPlace, Neighbour, Process, ProcessEvent, ProcessEventKind};
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
            Some((reported, _)) => {
                format!(
                    "{column} = CASE WHEN excluded.{reported} IS NULL THEN {known} ELSE excluded.{column} END"
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
    let mut upsert = db.prepare_cached(&completing(&PROCESSES))?;
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
    let mut insert = insert_into(db, &PROCESS_EVENTS)?;
    let mut threads = Threads::of(db, session_id)?;
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
        threads.emit(event)?;
        if event.kind == ProcessEventKind::Exit {
            end_process(db, event)?;
        }
    }
    Ok(())
}

fn end_process(db: &Connection, event: &ProcessEvent) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE processes SET end_ns = ?1, exit_code = coalesce(exit_code, ?3) \
         WHERE pid = ?2 AND end_ns IS NULL AND start_ns <= ?1",
    )?
    .execute(params![event.time_ns as i64, event.pid, event.exit_code])
    .map(drop)
}

pub(super) fn neighbours(db: &Connection, neighbours: &[Neighbour], session_id: i64) -> rusqlite::Result<()> {
    if neighbours.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &NEIGHBOURS)?;
    for neighbour in neighbours {
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
    if places.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &MEMORY_PLACES)?;
    for place in places {
        for (node, bytes) in &place.nodes {
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
    let mut insert = insert_into(db, &LOSS)?;
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
