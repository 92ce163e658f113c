//! The containers of processes: a row each, however many processes it has.

use super::row::{known, nonzero, put};
use crate::schema::Table;
use crate::schema::host::CONTAINERS;
use gpuwhy_model::Process;
use rusqlite::{Connection, params};

/// What is known stays; the times are those of all its processes.
fn completing(table: &Table) -> String {
    table.on_conflict(|column| match column {
        "first_seen_ns" => {
            format!(
                "{column} = min(coalesce({0}.{column}, excluded.{column}), excluded.{column})",
                table.name
            )
        }
        "last_seen_ns" => format!("{column} = excluded.{column}"),
        _ => format!("{column} = coalesce(excluded.{column}, {}.{column})", table.name),
    })
}

/// After the processes themselves are written: the end of a container is that of the last of them.
pub(super) fn containers(db: &Connection, processes: &[Process], session_id: i64) -> rusqlite::Result<()> {
    let mut upsert = db.prepare_cached(&completing(&CONTAINERS))?;
    let mut end = db.prepare_cached(
        "SELECT CASE WHEN count(*) = count(end_ns) THEN max(end_ns) END FROM processes \
         WHERE container_id = ? AND session_id = ?",
    )?;
    for process in processes {
        let Some(container) = process.container.as_ref().filter(|it| !it.container_id.is_empty()) else {
            continue;
        };
        let last: Option<i64> =
            end.query_row(params![container.container_id, session_id], |row| row.get(0))?;
        let labels = serde_json::to_string(&container.labels).ok().filter(|_| !container.labels.is_empty());
        put!(
            upsert,
            CONTAINERS,
            "container_id" = container.container_id.as_str(),
            "runtime" = container.runtime.as_deref(),
            "name" = container.name.as_deref(),
            "image" = container.image.as_deref(),
            "pod" = container.pod.as_deref(),
            "namespace" = container.namespace.as_deref(),
            "labels" = labels,
            "cgroup_id" = nonzero(process.cgroup_id),
            "cgroup" = known(&process.cgroup),
            "first_seen_ns" = process.start_ns as i64,
            "last_seen_ns" = last,
            "session_id" = session_id,
            "pod_uid" = container.pod_uid.as_deref(),
            "qos" = container.qos.as_deref(),
        );
    }
    Ok(())
}
