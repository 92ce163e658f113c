//! What happens once in a unit of work: marks, collectives, and calls that may. From them the steps of a loop are found.

use super::row::{each_row, rows};
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::activity::{Activity, Beat, BeatCount, BeatKind};
use gpuwhy_cause::evidence::Mark;
use gpuwhy_model::{Family, Layer, OpInfo, Role};
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, HashMap};

const MAX_BEATS: usize = 300_000;
/// The latest calls tell the period; how many there are in all is counted.
const MAX_CALL_BEATS: usize = 20_000;

/// Calls are counted by windows of this length.
const WINDOW_NS: u64 = 500_000_000;

/// What happens once in a unit of work, as far as each one is on file.
pub(super) fn beats(
    reader: &Reader,
    times: [u64; 2],
    evidence: &Evidence,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let mut push = |pid, kind, key: &str, time_ns| {
        let key = hash(key);
        activity.beats.push(Beat { pid, kind, key, counted_as: key, time_ns });
    };
    for (pid, mark) in unit_marks(&evidence.marks) {
        push(pid, BeatKind::Mark, &mark.event, mark.start_ns);
    }
    let sql = format!(
        "SELECT pid, comm_id_hash, timestamp_ns FROM nccl_events WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
         AND seq IS NOT NULL ORDER BY timestamp_ns DESC LIMIT {MAX_BEATS}"
    );
    for row in rows(reader, &sql, times)? {
        push(row.id(0), BeatKind::Collective, &row.text(1), row.number(2));
    }
    call_beats(reader, times, evidence, activity)
}

/// Names of marks that are units of work, in the order in which they are taken; of a process those of one name count.
const UNITS: [&str; 4] = ["step", "iteration", "batch", "request"];

fn unit_marks(marks: &[Mark]) -> Vec<(u32, &Mark)> {
    let rank = |mark: &Mark| UNITS.iter().position(|unit| *unit == mark.event);
    let mut best: BTreeMap<u32, usize> = BTreeMap::new();
    for mark in marks {
        if let (Some(pid), Some(rank)) = (mark.pid, rank(mark)) {
            let known = best.entry(pid).or_insert(rank);
            *known = rank.min(*known);
        }
    }
    let is_unit = |mark: &&Mark| {
        mark.pid.is_some_and(|pid| rank(mark).is_some() && rank(mark) == best.get(&pid).copied())
    };
    marks.iter().filter(is_unit).filter_map(|mark| Some((mark.pid?, mark))).collect()
}

/// Calls that may come once in a unit of work. Of frequent ones the first of each half second are recorded; all are counted.
fn call_beats(
    reader: &Reader,
    times: [u64; 2],
    evidence: &Evidence,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let kind_of = |op: &OpInfo| match op.family {
        _ if op.role == Role::GraphLaunch => Some(BeatKind::GraphLaunch),
        Family::Sync => Some(BeatKind::Synchronisation),
        Family::Copy => Some(BeatKind::Copy),
        _ => None,
    };
    let kinds: HashMap<&str, BeatKind> = evidence
        .ops
        .values()
        .filter(|op| op.layer != Layer::Driver)
        .filter_map(|op| Some((op.name.as_str(), kind_of(op)?)))
        .collect();
    let ops = kinds.keys().map(|op| literal(op)).collect::<Vec<_>>().join(", ");
    for table in ["cuda_events", "hip_events"] {
        let places = places(reader, times, table, &ops)?;
        let sql = format!(
            "SELECT pid, op, stack_id, timestamp_ns, handle FROM {table} WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
             AND op IN ({ops}) ORDER BY timestamp_ns DESC LIMIT {MAX_CALL_BEATS}"
        );
        each_row(reader, &sql, times, |row| {
            let op = row.text(1);
            let Some(kind) = kinds.get(op.as_str()) else { return };
            let (pid, time_ns) = (row.id(0), row.number(3));
            // By place or by graph, as several in one step are at several places; and all of them, where places are not known.
            let counted_as = hash(&op);
            let mut push = |key| activity.beats.push(Beat { pid, kind: *kind, key, counted_as, time_ns });
            push(counted_as);
            match (*kind, row.maybe_text(4), row.signed(2)) {
                (BeatKind::GraphLaunch, Some(graph), _) => push(counted_as ^ hash(&graph)),
                (_, _, Some(stack_id)) => {
                    let place = places.get(&stack_id).copied();
                    push(counted_as ^ place.unwrap_or(stack_id.cast_unsigned()));
                }
                _ => {}
            }
        })?;
    }
    // Of calls that are watched in slices, what was counted stands for the whole window.
    let sql = format!(
        "SELECT pid, op, window_start_ns, CASE WHEN window_ns BETWEEN 1 AND {WINDOW_NS} \
         THEN CAST(round(count * {WINDOW_NS}.0 / window_ns) AS INTEGER) ELSE count END FROM call_stats WHERE window_start_ns >= ?1 AND window_start_ns < ?2 \
         AND op IN ({ops})"
    );
    each_row(reader, &sql, times, |row| {
        let op = row.text(1);
        if let Some(kind) = kinds.get(op.as_str()) {
            let of_op = activity.beat_counts.entry((row.id(0), *kind, hash(&op))).or_default();
            of_op.push(BeatCount { window_start_ns: row.number(2), count: row.number(3) });
        }
    })?;
    Ok(())
}

/// By stack: its lines of Python. Below them the same call may come by several ways through a library.
fn places(reader: &Reader, times: [u64; 2], table: &str, ops: &str) -> Result<HashMap<i64, u64>, QueryError> {
    let mut places: HashMap<i64, u64> = HashMap::new();
    let sql = format!(
        "SELECT stack_id, file, line FROM frames WHERE kind = 'python' AND stack_id IN (SELECT stack_id FROM {table} \
         WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND op IN ({ops})) ORDER BY stack_id, depth"
    );
    each_row(reader, &sql, times, |row| {
        let place = places.entry(row.signed(0).unwrap_or_default()).or_default();
        *place = place.rotate_left(7) ^ hash(&format!("{}:{}", row.text(1), row.number(2)));
    })?;
    Ok(places)
}

/// A text of the trace in a statement. Names come from the file: whatever bytes they have, they end nothing.
fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("CAST(x'{hex}' AS TEXT)")
}

fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_process_the_marks_of_one_unit_count() {
        let mark = |pid, event: &str| Mark { event: event.into(), pid: Some(pid), ..Mark::default() };
        let marks =
            [mark(1, "request"), mark(1, "step"), mark(1, "epoch"), mark(2, "request"), mark(3, "epoch")];
        let units: Vec<(u32, &str)> =
            unit_marks(&marks).into_iter().map(|(pid, mark)| (pid, mark.event.as_str())).collect();
        assert_eq!(units, [(1, "step"), (2, "request")]);
    }
}
