//! Collectives by rank, and calls that do not return.

use super::row::{Row, rows};
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::evidence::{Arrival, HangingCall, Unordered};
use gpuwhy_model::{CallInFlight, OpId};
use gpuwhy_store::Reader;

/// Of more collectives than this only some are looked at, of those all ranks.
const MAX: u64 = 400_000;
/// The last ones are looked at all the same: they may hang.
const LAST_NS: u64 = 60_000_000_000;

pub(super) fn collectives(
    reader: &Reader,
    times: [u64; 2],
    evidence: &mut Evidence,
) -> Result<(), QueryError> {
    let count = "SELECT count(*) FROM nccl_events WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2";
    let count = rows(reader, count, times)?.first().map_or(0, |row| row.number(0));
    let every = (count / MAX).max(1);
    let last = times[1].saturating_sub(LAST_NS);
    let sql = format!(
        "SELECT comm_id_hash, seq, rank, nranks, pid, ifnull(function, op), timestamp_ns, duration_ns, count, datatype, \
         reduce_op, bytes, stack_id FROM nccl_events WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
         AND comm_id_hash IS NOT NULL AND seq IS NOT NULL AND rank IS NOT NULL \
         AND (seq % {every} = 0 OR timestamp_ns >= {last}) ORDER BY 1, 2, 3, 7"
    );
    for row in rows(reader, &sql, times)? {
        evidence.collectives.push(Arrival {
            comm: row.text(0),
            seq: row.number(1),
            rank: row.signed(2).unwrap_or(0) as i32,
            nranks: row.signed(3).unwrap_or(0) as i32,
            pid: row.id(4),
            op: row.text(5),
            start_ns: row.number(6),
            duration_ns: row.number(7),
            count: row.maybe(8),
            datatype: row.maybe_text(9),
            reduce_op: row.maybe_text(10),
            bytes: row.maybe(11),
            stack_id: row.signed(12),
        });
    }
    Ok(())
}

/// Messages go by their peers; only collectives have an order. One split from a communicator that was made unseen numbers its collectives
/// from its beginning: it is its missing id that keeps its ranks apart.
pub(super) fn unordered(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT pid, ifnull(function, op), rank, nranks, count(*), sum(duration_ns), min(timestamp_ns) FROM nccl_events \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND comm_id_hash IS NULL AND comm IS NOT NULL \
               AND count IS NOT NULL AND op NOT IN ('SEND', 'RECV', 'PUT_SIGNAL', 'SIGNAL', 'WAIT_SIGNAL') \
               GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT 10000";
    for row in rows(reader, sql, times)? {
        evidence.unordered.push(Unordered {
            pid: row.id(0),
            op: row.text(1),
            rank: row.signed(2).map(|rank| rank as i32),
            nranks: row.signed(3).map(|nranks| nranks as i32),
            calls: row.number(4),
            ns: row.number(5),
            first_ns: row.number(6),
        });
    }
    Ok(())
}

pub(super) fn in_flight(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let sql = "SELECT start_ns, pid, tid, op, comm_id_hash, rank, nranks, seq, seen_ns, ended_ns, stack_id FROM calls_in_flight \
               WHERE seen_ns >= ?1 AND start_ns < ?2 AND ended_ns IS NULL ORDER BY 1, 2, 3 LIMIT 10000";
    let hash = |row: &Row<'_>| u64::from_str_radix(row.text(4).trim_start_matches("0x"), 16).ok();
    for row in rows(reader, sql, times)? {
        let op = row.text(3);
        evidence.in_flight.push(HangingCall {
            call: CallInFlight {
                start_ns: row.number(0),
                pid: row.id(1),
                tid: row.id(2),
                op: evidence.ops.get(&op).map_or(OpId::NONE, |op| op.id),
                stream: 0,
                handle: 0,
                comm_id_hash: hash(&row),
                rank: row.signed(5).map(|rank| rank as i32),
                nranks: row.signed(6).map(|nranks| nranks as i32),
                seq: row.maybe(7),
                seen_ns: row.number(8),
                ended_ns: None,
                stack_id: row.signed(10),
                line: None,
            },
            op,
        });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
mod tests {
    use super::*;
    use gpuwhy_model::{Batch, Call, Collective, Facts, Family, Layer, OpInfo, Role};
    use gpuwhy_store::{Options, SessionInfo, Writer};

    const COMM: u64 = 0x1000;

    fn all_reduce(start_ns: u64, comm_id_hash: Option<u64>, seq: Option<u64>) -> Collective {
        Collective {
            call: Call { start_ns, duration_ns: 10, op: OpId(1), pid: 7, tid: 7, ..Call::default() },
            event: "ALL_REDUCE".into(),
            comm: COMM,
            comm_id_hash,
            rank: Some(0),
            nranks: Some(2),
            seq,
            count: Some(4096),
            bytes: None,
            datatype: None,
            reduce_op: None,
            peer: None,
            grouped: false,
        }
    }

    #[test]
    fn collectives_without_a_communicator_id_have_no_order_whether_numbered_or_not() {
        let op = OpInfo {
            id: OpId(1),
            name: "ncclAllReduce".into(),
            layer: Layer::Nccl,
            family: Family::Collective,
            waits_for_gpu: false,
            role: Role::None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.db");
        let session = SessionInfo::default();
        let mut writer = Writer::create_or_append(&path, &session, &[op], &Options::default()).unwrap();
        let reduced = vec![
            all_reduce(100, None, None),
            // Of a communicator that was split, before our eyes, from one that was made unseen.
            all_reduce(200, None, Some(1)),
            all_reduce(300, None, Some(2)),
            all_reduce(400, Some(5), Some(1)),
        ];
        let sends = vec![Collective { event: "SEND".into(), peer: Some(1), ..all_reduce(500, None, None) }];
        let facts = Facts { collectives: [reduced, sends].concat(), ..Facts::default() };
        writer.write(&Batch::default(), &facts).unwrap();
        writer.finish(1_000).unwrap();
        let reader = Reader::open(&path).unwrap();
        let mut evidence = Evidence::default();
        unordered(&reader, [0, 1_000], &mut evidence).unwrap();
        let found: Vec<_> = evidence.unordered.iter().map(|one| (one.calls, one.ns, one.first_ns)).collect();
        assert_eq!(found, [(3, 30, 100)]);
        collectives(&reader, [0, 1_000], &mut evidence).unwrap();
        assert_eq!(evidence.collectives.len(), 1, "every other one is among those without order");
    }
}
