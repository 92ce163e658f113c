//! The host's side: long waits, neighbours, retransmits, kills, and where threads run.

use super::row::{Row, each_row, part_of_rows, rows, rows_within, table_for};
use super::scope::Scope;
use super::texts::Texts;
use crate::QueryError;
use foldhash::fast::RandomState;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{LongWait, Retransmits, ThreadHome, WaitSite};
use gpuwhy_model::{Neighbour, OomEvent, Part, RdmaEvent};
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, HashMap};

/// The waits that took most time, of each table.
const MAX_WAITS: usize = 200;
/// Of more rows than this only a part is looked at; all that are long.
const MAX_ROWS: u64 = 400_000;
const LONG_NS: u64 = 100_000_000;

pub(super) fn waits(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let scope = scope.condition("pid", "timestamp_ns");
    // Table, what was waited for: file, device, address and port of a peer.
    let tables = [
        ("sched_events", "NULL, NULL, NULL, NULL"),
        ("io_events", "file, device, NULL, NULL"),
        ("net_events", "NULL, NULL, daddr, dport"),
        ("mem_events", "NULL, NULL, NULL, NULL"),
    ];
    for (table, object) in tables {
        let every = (rows_within(reader, times, table)? / MAX_ROWS).max(1);
        let sql = format!(
            "SELECT duration_ns, pid, tid, op, event, {object}, by_comm, stack_id FROM {} \
             WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND duration_ns > 0 AND {}{scope}",
            table_for(reader, times, table)?,
            part_of_rows("timestamp_ns", every, &format!("duration_ns >= {LONG_NS}"))
        );
        // Summed here: a statement that groups millions of rows by all of their columns sorts them.
        let mut texts = Texts::default();
        let mut sums: HashMap<WaitKey, LongWait, RandomState> = HashMap::default();
        each_row(reader, &sql, times, |row| {
            let wait = sums.entry(WaitKey::of(row, &mut texts)).or_insert_with(|| long_wait(row));
            let ns = row.number(0);
            let stands_for = if ns >= LONG_NS { 1 } else { every };
            wait.ns += ns * stands_for;
            wait.count += stands_for;
        })?;
        let mut waits: Vec<LongWait> = sums.into_values().collect();
        // In an order that does not depend on that of the rows.
        waits.sort_by_cached_key(order);
        waits.truncate(MAX_WAITS);
        evidence.waits.extend(waits);
    }
    Ok(())
}

/// What waits that are summed have in common.
#[derive(PartialEq, Eq, Hash)]
struct WaitKey {
    pid: u32,
    tid: u32,
    /// Of the operation, event, file, device, address and the one who ended it.
    texts: [u32; 6],
    port: u64,
    stack_id: Option<i64>,
}

impl WaitKey {
    fn of(row: &Row<'_>, texts: &mut Texts) -> WaitKey {
        WaitKey {
            pid: row.id(1),
            tid: row.id(2),
            texts: [3, 4, 5, 6, 7, 9].map(|at| row.maybe_str(at).map_or(0, |text| 1 + texts.number(&text))),
            port: row.number(8),
            stack_id: row.signed(10),
        }
    }
}

/// A wait as a row has it, of no time yet.
fn long_wait(row: &Row<'_>) -> LongWait {
    LongWait {
        pid: row.id(1),
        tid: row.id(2),
        op: row.maybe_text(3),
        event: row.text(4),
        file: row.maybe_text(5),
        device: row.maybe_text(6),
        peer: row.maybe_text(7).zip(row.maybe(8)).map(|(address, port)| format!("{address}:{port}")),
        by_comm: row.text(9),
        stack_id: row.signed(10),
        ns: 0,
        count: 0,
    }
}

/// The longest first.
fn order(wait: &LongWait) -> impl Ord + use<> {
    let what = [&wait.op, &wait.file, &wait.device, &wait.peer].map(|text| text.clone().unwrap_or_default());
    let named = (wait.event.clone(), what, wait.by_comm.clone());
    (std::cmp::Reverse(wait.ns), wait.pid, wait.tid, named, wait.stack_id)
}

pub(super) fn wait_sites(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let scope = scope.condition("pid", "timestamp_ns");
    let sql = format!(
        "SELECT pid, tid, reason, stack_id, sum(coalesce(weight_ns, 250000000)) FROM {} \
         WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2{scope} GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT 10000",
        table_for(reader, times, "wait_samples")?
    );
    for row in rows(reader, &sql, times)? {
        let Some(part) = Part::of_name(&row.text(2)) else { continue };
        evidence.wait_sites.push(WaitSite {
            pid: row.id(0),
            tid: row.id(1),
            part,
            stack_id: row.signed(3).unwrap_or(0),
            ns: row.number(4),
        });
    }
    Ok(())
}

pub(super) fn others(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT pid, comm, cgroup_id, cgroup, tenant, first_seen_ns FROM neighbours ORDER BY first_seen_ns, pid";
    for row in rows(reader, sql, times)? {
        evidence.neighbours.push(Neighbour {
            pid: row.id(0),
            comm: row.text(1),
            cgroup_id: row.number(2),
            cgroup: row.text(3),
            tenant: row.text(4),
            first_seen_ns: row.number(5),
        });
    }
    let sql = "SELECT pid, max(rank), saddr || ':' || sport, daddr || ':' || dport, count(*), sum(bytes), min(timestamp_ns), \
               max(timestamp_ns) FROM tcp_events WHERE event = 'tcp_retransmit_skb' AND timestamp_ns >= ?1 AND timestamp_ns < ?2 \
               GROUP BY 1, 3, 4 ORDER BY 5 DESC, 1, 3, 4 LIMIT 10000";
    for row in rows(reader, sql, times)? {
        evidence.retransmits.push(Retransmits {
            pid: row.id(0),
            rank: row.signed(1).map(|rank| rank as i32),
            local: row.text(2),
            remote: row.text(3),
            count: row.number(4),
            bytes: row.number(5),
            first_ns: row.number(6),
            last_ns: row.number(7),
        });
    }
    let sql = "SELECT timestamp_ns, pid, cgroup_id, by_pid, by_comm FROM mem_events WHERE event = 'oom_kill' \
               AND timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY 1, 2 LIMIT 1000";
    for row in rows(reader, sql, times)? {
        evidence.kills.push(OomEvent {
            time_ns: row.number(0),
            pid: row.id(1),
            cgroup_id: row.number(2),
            by_pid: row.id(3),
            by_tid: 0,
            by_comm: row.text(4),
        });
    }
    let sql = "SELECT DISTINCT pid FROM driver_stats WHERE window_start_ns >= ?1 AND window_start_ns < ?2 ORDER BY 1";
    evidence.driver_users = rows(reader, sql, times)?.iter().map(|row| row.id(0)).collect();
    let sql = "SELECT max(timestamp_ns), event, device, port, counter, sum(delta), max(pid) FROM rdma_events \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND (event <> 'counter' OR delta > 0) \
               GROUP BY 2, 3, 4, 5 ORDER BY 2, 3, 4, 5";
    for row in rows(reader, sql, times)? {
        evidence.fabric.push(RdmaEvent {
            time_ns: row.number(0),
            event: row.text(1),
            device: row.text(2),
            port: row.maybe(3).map(|port| port as u32),
            counter: row.text(4),
            value: None,
            delta: row.maybe(5),
            pid: row.maybe(6).map(|pid| pid as u32),
            tid: None,
        });
    }
    Ok(())
}

pub(super) fn places(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let mut memory: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
    let mut gpus: BTreeMap<u32, (Option<u16>, Option<u32>)> = BTreeMap::new();
    let sql = "SELECT pid, numa_node, bytes, gpu, gpu_node, max(timestamp_ns) FROM memory_places \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 GROUP BY pid, numa_node ORDER BY 1, 2";
    for row in rows(reader, sql, times)? {
        memory.entry(row.id(0)).or_default().push((row.id(1), row.number(2)));
        gpus.insert(row.id(0), (row.maybe(3).map(|gpu| gpu as u16), row.maybe(4).map(|node| node as u32)));
    }
    let sql =
        "SELECT pid, tid, numa_node, node_migrations FROM threads WHERE numa_node IS NOT NULL ORDER BY 1, 2";
    for row in rows(reader, sql, times)? {
        let pid = row.id(0);
        let (gpu, gpu_node) = gpus.get(&pid).copied().unwrap_or_default();
        evidence.places.push(ThreadHome {
            pid,
            tid: row.id(1),
            node: row.id(2),
            node_migrations: row.number(3),
            memory: memory.get(&pid).cloned().unwrap_or_default(),
            gpu,
            gpu_node,
        });
    }
    Ok(())
}
