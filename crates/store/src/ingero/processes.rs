//! `processes`, filled when a file is opened: they are few, and most questions look names up.

use super::kinds::{CALLS, HOST, TCP};
use super::shape::Shape;
use rusqlite::Connection;

/// Facts of a process are taken from its first rows, so that opening does not read all.
const FIRST: usize = 1000;

/// Of every process that has rows. When one started is not known, and 0.
pub(super) fn fill(db: &Connection, shape: &Shape) -> rusqlite::Result<()> {
    // In rows of the scheduler and of TCP the cgroup is somebody else's.
    let cgroup = shape.event("cgroup_id");
    let own = format!("iif(e.source NOT IN ({HOST}, {TCP}) AND {cgroup} > 1, {cgroup}, NULL)");
    let comm = match shape.has("events", "comm") {
        true => format!(
            "max(iif(e.source IN ({}) AND e.tid = e.pid, nullif(e.comm, ''), NULL))",
            CALLS.map(|source| source.to_string()).join(", ")
        ),
        false => "NULL".into(),
    };
    let first = format!(
        "(SELECT ?1 AS pid, max({own}) AS cgroup_id, {comm} AS comm, max({}) AS rank, max({}) AS local_rank, \
         max({}) AS world_size FROM (SELECT * FROM main.events WHERE pid = ?1 LIMIT {FIRST}) e)",
        shape.event("rank"),
        shape.event("local_rank"),
        shape.event("world_size")
    );
    let names = match shape.has("process_names", "name") {
        true => "(SELECT n.name FROM main.process_names n WHERE n.pid = ?1)",
        false => "NULL",
    };
    let of_cgroup = |column: &str| match shape.has("cgroup_metadata", column) {
        true => format!(
            "(SELECT nullif(c.{column}, '') FROM main.cgroup_metadata c WHERE c.cgroup_id = f.cgroup_id)"
        ),
        false => "NULL".into(),
    };
    let session = match shape.sessions[..] {
        [only] => only.to_string(),
        _ => "NULL".into(),
    };
    // Threads exit, too. The plus keeps to the index by kind: a process has many rows, but few are exits.
    let ended = format!(
        "(SELECT max(x.timestamp) FROM main.events x WHERE x.source = {HOST} AND x.op = 6 AND +x.pid = ?1 AND x.tid = ?1)"
    );
    let mut row = db.prepare(&format!(
        "INSERT INTO processes (pid, start_ns, end_ns, comm, cgroup_id, cgroup, container_id, pod, namespace, rank, \
         local_rank, world_size, session_id) SELECT ?1, 0, {ended}, coalesce({names}, f.comm), f.cgroup_id, {}, {}, {}, {}, \
         f.rank, f.local_rank, f.world_size, {session} FROM {first} f",
        of_cgroup("cgroup_path"),
        of_cgroup("container_id"),
        of_cgroup("pod_name"),
        of_cgroup("namespace"),
    ))?;
    for pid in Shape::pids(db)? {
        row.execute([pid])?;
    }
    Ok(())
}
