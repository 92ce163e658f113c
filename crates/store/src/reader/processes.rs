//! Processes, with what is known of their containers.

use super::Reader;
use super::records::{bits, maybe, number, text};
use crate::StoreError;
use gpuwhy_model::{Container, Process};
use rusqlite::Row;

impl Reader {
    pub fn processes(&self) -> Result<Vec<Process>, StoreError> {
        let sql = "SELECT p.pid, parent_pid, start_ns, end_ns, exit_code, comm, cmdline, exe, uid, p.cgroup_id, p.cgroup, \
                   p.container_id, rank, local_rank, world_size, local_world_size, node_rank, rank_source, tenant, p.pod, \
                   p.namespace, job_system, job_id, job_step, job_name, job_user, job_queue, unit, cpus_allowed, \
                   mems_allowed, c.container_id, c.runtime, c.name, c.image, c.pod, c.namespace, c.labels, c.pod_uid, c.qos \
                   FROM processes p LEFT JOIN containers c ON c.container_id = p.container_id ORDER BY start_ns, pid";
        self.rows(sql, [], |row| {
            Ok(Process {
                pid: row.get(0)?,
                parent_pid: number(row, 1)? as u32,
                start_ns: number(row, 2)?,
                end_ns: maybe(row, 3)?,
                exit_code: row.get(4)?,
                comm: text(row, 5)?,
                cmdline: text(row, 6)?,
                exe: text(row, 7)?,
                uid: number(row, 8)? as u32,
                cgroup_id: bits(row, 9)?,
                cgroup: text(row, 10)?,
                container_id: row.get(11)?,
                rank: row.get(12)?,
                local_rank: row.get(13)?,
                world_size: row.get(14)?,
                local_world_size: row.get(15)?,
                node_rank: row.get(16)?,
                rank_source: row.get(17)?,
                tenant: text(row, 18)?,
                pod: row.get(19)?,
                namespace: row.get(20)?,
                job_system: row.get(21)?,
                job_id: row.get(22)?,
                job_step: row.get(23)?,
                job_name: row.get(24)?,
                job_user: row.get(25)?,
                job_queue: row.get(26)?,
                unit: row.get(27)?,
                cpus_allowed: row.get(28)?,
                mems_allowed: row.get(29)?,
                container: container(row)?,
            })
        })
    }
}

/// From the 31st column on.
fn container(row: &Row<'_>) -> rusqlite::Result<Option<Container>> {
    let Some(container_id) = row.get(30)? else { return Ok(None) };
    Ok(Some(Container {
        container_id,
        runtime: row.get(31)?,
        name: row.get(32)?,
        image: row.get(33)?,
        pod: row.get(34)?,
        namespace: row.get(35)?,
        labels: serde_json::from_str(&text(row, 36)?).unwrap_or_default(),
        pod_uid: row.get(37)?,
        qos: row.get(38)?,
    }))
}
