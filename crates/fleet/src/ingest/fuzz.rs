//! Entry points for the fuzzers in `fuzz/`: pushes as they come, and the journal's files. Nothing else calls them.

use super::body::{self, Packing};
use super::budget::Budget;
use super::decode::{AllNames, Decoding, LeftOut, Room};
use super::{Format, PushError, Signal, id, parsed};
use crate::clock::Now;
use crate::journal::{self, frames};
use crate::limits::Limits;
use crate::point::Batch;
use bytes::Bytes;

/// Unpacks and decodes a push, within the limits that are in force.
pub fn push(signal: Signal, format: Format, packing: Packing, bytes: &[u8]) -> Result<Batch, PushError> {
    let limits = Limits::default();
    let budget = Budget::new(limits.memory_bytes);
    let mut taken = budget.none();
    let message = body::unpack(Bytes::copy_from_slice(bytes), packing, &limits, &mut taken)?;
    let now = Now::read();
    let names = AllNames::new(&limits);
    let mut decoding = Decoding {
        limits: &limits,
        names: &names,
        may_push: &|cluster| cluster != "forbidden",
        now,
        attribute_bytes: 0,
        room: Room::default(),
        batch: Batch { id: id("", signal, &message), received_ns: now.wall_ns, ..Batch::default() },
        left_out: LeftOut::default(),
    };
    match signal {
        Signal::Metrics => decoding.metrics(&parsed(format, &message)?),
        Signal::Logs => decoding.logs(&parsed(format, &message)?),
        Signal::Traces => decoding.spans(&parsed(format, &message)?),
    }
    decoding.left_out.sentence();
    Ok(decoding.batch)
}

/// A batch as the journal keeps it.
pub fn record(batch: &Batch) -> Vec<u8> {
    journal::encode_record(batch)
}

/// A record of the journal.
pub fn batch(record: &[u8]) -> Option<Batch> {
    journal::decode(record)
}

/// A record with its length and checksum.
pub fn frame(record: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    journal::put_frame(record, &mut bytes);
    bytes
}

/// The batches of a file of the journal, as a restart reads them.
pub fn segment(bytes: &[u8]) -> Vec<Batch> {
    frames(bytes).filter_map(|frame| journal::decode(frame.record?)).collect()
}
