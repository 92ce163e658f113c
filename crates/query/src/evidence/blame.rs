//! Whom the time of threads is attributed to: the rows of `blame` summed over their windows, in one pass. A statement that groups
//! them by all their texts takes several times as long.

use super::row::{each_row, table_for};
use super::scope::Scope;
use super::texts::Texts;
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::AttributedTime;
use gpuwhy_model::Cause;
use gpuwhy_store::Reader;
use std::collections::HashMap;

pub(super) fn attribution(
    reader: &Reader,
    times: [u64; 2],
    scope: &Scope,
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let sql = format!(
        "SELECT pid, tid, op, cause, by_pid, by_tid, by_comm, by_cgroup_id, ns, count, window_start_ns FROM {} \
         WHERE window_start_ns >= ?1 AND window_start_ns < ?2{}",
        table_for(reader, times, "blame")?,
        scope.condition("pid", "window_start_ns")
    );
    let causes: HashMap<&str, Cause> = Cause::ALL.iter().map(|cause| (cause.name(), *cause)).collect();
    let mut texts = Texts::default();
    let mut sums: HashMap<Key, AttributedTime> = HashMap::new();
    each_row(reader, &sql, times, |row| {
        let key = Key {
            pid: row.id(0),
            tid: row.id(1),
            op: texts.number(&row.str(2)),
            cause: texts.number(&row.str(3)),
            by_pid: row.id(4),
            by_tid: row.id(5),
            by_comm: texts.number(&row.str(6)),
            by_cgroup_id: row.number(7),
        };
        let time_ns = row.number(10);
        let sum = sums.entry(key).or_insert_with(|| AttributedTime {
            pid: row.id(0),
            tid: row.id(1),
            op: row.maybe_text(2),
            cause: causes.get(row.str(3).as_ref()).copied().unwrap_or(Cause::Unknown),
            by_pid: row.id(4),
            by_tid: row.id(5),
            by_comm: row.text(6),
            by_cgroup_id: row.number(7),
            ns: 0,
            count: 0,
            first_ns: time_ns,
            last_ns: time_ns,
        });
        sum.ns += row.number(8);
        sum.count += row.number(9);
        sum.first_ns = sum.first_ns.min(time_ns);
        sum.last_ns = sum.last_ns.max(time_ns);
    })?;
    evidence.attribution = sums.into_values().collect();
    evidence.attribution.sort_by(|a, b| {
        let by = |row: &AttributedTime| (row.by_pid, row.by_tid);
        (a.pid, a.tid, &a.op, a.cause, by(a), &a.by_comm, a.by_cgroup_id).cmp(&(
            b.pid,
            b.tid,
            &b.op,
            b.cause,
            by(b),
            &b.by_comm,
            b.by_cgroup_id,
        ))
    });
    Ok(())
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    tid: u32,
    op: u32,
    cause: u32,
    by_pid: u32,
    by_tid: u32,
    by_comm: u32,
    by_cgroup_id: u64,
}
