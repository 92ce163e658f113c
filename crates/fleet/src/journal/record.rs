//! A record: a batch as bytes.

use super::coding::{Coded, Reader, Writer, coded, get_later, put_later};
use crate::point::{Batch, Collective, Event, Found, Kind, Origin, Seen};
use std::sync::Arc;

coded!(Origin { cluster, node, job, rank, nranks });
coded!(Event { timestamp_ns, origin, name, kind, double, int, attrs });
coded!(Collective {
    start_ns,
    duration_ns,
    origin,
    comm_id_hash,
    seq,
    op,
    comm_rank,
    comm_nranks,
    peer,
    count,
    datatype,
    reduce_op,
    pid,
    tid,
});
coded!(Found { timestamp_ns, origin, source, class, severity, title, pid, finding });
coded!(Seen { cluster, node, at_ns, points, resource });
coded!(Batch { id, received_ns, events, collectives, findings, nodes } then { sender });

impl Coded for Kind {
    fn put(&self, to: &mut Writer) {
        let at = Kind::ALL.iter().position(|kind| kind == self).unwrap_or_default();
        (at as u8).put(to);
    }

    fn get(from: &mut Reader<'_>) -> Option<Kind> {
        Kind::ALL.get(usize::from(u8::get(from)?)).copied()
    }
}

/// Who found something: one of two.
impl Coded for &'static str {
    fn put(&self, to: &mut Writer) {
        Arc::<str>::from(*self).put(to);
    }

    fn get(from: &mut Reader<'_>) -> Option<&'static str> {
        let text: Arc<str> = from.get()?;
        Found::SOURCES.into_iter().find(|source| **source == *text)
    }
}

pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut writer = Writer::default();
    batch.put(&mut writer);
    writer.bytes
}

/// Nothing where the bytes are no batch, all of them.
pub(crate) fn decode(bytes: &[u8]) -> Option<Batch> {
    let mut reader = Reader::new(bytes);
    let batch = reader.get()?;
    reader.is_at_end().then_some(batch)
}

/// Of a record, its batch's id, which comes first.
pub(super) fn id(bytes: &[u8]) -> Option<crate::point::BatchId> {
    Reader::new(bytes).get()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// With something in every field.
    pub(in crate::journal) fn batch(id: i128, rows: i64) -> Batch {
        let origin = |rank: Option<i32>| Origin {
            cluster: "training".into(),
            node: "node\u{e9}7".into(),
            job: rank.map(|_| "0x12".into()),
            rank,
            nranks: rank.map(|_| 4096),
        };
        let event = |at: i64| Event {
            timestamp_ns: 1_800_000_000_000_000_000 + at,
            origin: origin((at % 3 != 0).then_some(at as i32)),
            name: format!("gpuwhy.rank.{}", at % 5).into(),
            kind: Kind::ALL[at as usize % Kind::ALL.len()],
            double: (at % 2 == 0).then_some(at as f64 / 7.0),
            int: (at % 2 == 1).then_some(-at),
            attrs: (at % 4 == 0).then(|| format!("{{\"class\":\"{at}\"}}").into()),
        };
        let collective = Collective {
            start_ns: 5,
            duration_ns: None,
            origin: origin(Some(1)),
            comm_id_hash: "0xab".into(),
            seq: Some(41),
            op: "ALL_REDUCE".into(),
            comm_rank: Some(2),
            comm_nranks: Some(8),
            peer: None,
            count: Some(1 << 40),
            datatype: Some("bfloat16".into()),
            reduce_op: None,
            pid: Some(77),
            tid: Some(78),
        };
        let found = |source| Found {
            timestamp_ns: -1,
            origin: origin(None),
            source,
            class: Some("io.block".into()),
            severity: None,
            title: "t".into(),
            pid: Some(1),
            finding: Some("{}".into()),
        };
        let seen = Seen {
            cluster: "training".into(),
            node: "n".into(),
            at_ns: 9,
            points: 3,
            resource: "{\"a\":1}".into(),
        };
        Batch {
            id,
            received_ns: 1_800_000_000_000_000_000,
            events: (0..rows).map(event).collect(),
            collectives: vec![collective],
            findings: Found::SOURCES.map(found).into(),
            nodes: vec![seen],
            sender: 7,
        }
    }

    #[test]
    fn a_batch_comes_back_as_it_was() {
        for rows in [0, 1, 500] {
            let batch = batch(i128::MAX - i128::from(rows), rows);
            let bytes = encode(&batch);
            assert_eq!(decode(&bytes).as_ref(), Some(&batch));
            assert_eq!(id(&bytes), Some(batch.id));
        }
        assert_eq!(decode(&encode(&Batch::default())), Some(Batch::default()));
    }

    #[test]
    fn what_ends_early_or_goes_on_is_no_batch() {
        let bytes = encode(&batch(7, 20));
        let earlier = bytes.len() - 1;
        assert!((0..earlier).all(|end| decode(&bytes[..end]).is_none()));
        let known = decode(&bytes[..earlier]);
        assert_eq!(known, Some(Batch { sender: 0, ..batch(7, 20) }), "it was written before senders were");
        assert_eq!(decode(&[bytes, vec![0]].concat()), None);
    }

    #[test]
    fn any_bytes_are_a_batch_or_nothing() {
        let bytes = encode(&batch(7, 20));
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..20_000 {
            let mut wrong = bytes.clone();
            for _ in 0..1 + next() % 4 {
                let at = next() % wrong.len();
                wrong[at] = next() as u8;
            }
            if let Some(batch) = decode(&wrong) {
                assert_eq!(decode(&encode(&batch)).map(|batch| batch.rows()), Some(batch.rows()));
            }
        }
    }
}
