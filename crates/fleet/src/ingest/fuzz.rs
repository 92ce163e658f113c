//! Entry points for the fuzzers in `fuzz/`: pushes as they come, and the journal's files. Nothing else calls them.

use super::body::{self, Packing};
use super::budget::Budget;
use super::decode::AllNames;
use super::{Format, Incoming, PushError, Signal, decode};
use crate::journal::{self, frames};
use crate::limits::Limits;
use crate::point::Batch;
use bytes::Bytes;
use gpuwhy_cohort::shares::Tenant;

/// Unpacks and decodes a push, within the limits that are in force.
pub fn push(signal: Signal, format: Format, packing: Packing, bytes: &[u8]) -> Result<Batch, PushError> {
    let limits = Limits::default();
    let sender = Tenant::from("");
    let mut taken = Budget::new(limits.memory_bytes, limits.sharing.tokens).none(&sender);
    let message = body::unpack(Bytes::copy_from_slice(bytes), packing, &limits, &mut taken)?;
    let incoming = Incoming { signal, format, message, sender, taken };
    let (batch, left_out, _) =
        decode(&limits, &AllNames::new(&limits), incoming, &|cluster| cluster != "forbidden")?;
    left_out.sentence();
    Ok(batch)
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
