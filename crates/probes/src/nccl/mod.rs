//! NCCL calls, and RCCL's, which has the same interface: collectives, messages, groups, communicators.

mod functions;

use crate::call::{self, known_or};
use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, nccl as raw, read};
use gpuwhy_model::NcclCall;

pub(crate) static PROBE: Probe = Probe {
    name: "nccl",
    about: "NCCL and RCCL collectives, point-to-point calls, groups and communicators, each call kept",
    object: bpf_object!("nccl"),
    attach: Attach::Functions(functions::FUNCTIONS),
    when: When::Default,
    needs: None,
    cost: "two traps and a record a call",
};

/// A call of the library.
pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<NcclCall> {
    let record: raw::nccl_record = read(bytes)?;
    let call = call::decode(bytes, clock_offset_ns)?;
    let known = record.communicator != 0;
    Some(NcclCall {
        call,
        communicator: record.communicator,
        comm_id_hash: known_or(record.hash, 0),
        rank: known_or(record.rank, -1).filter(|_| known),
        nranks: known_or(record.nranks, -1).filter(|_| known),
        seq: known_or(record.seq, 0),
        count: (record.datatype >= 0).then_some(record.count),
        datatype: known_or(record.datatype, -1),
        reduce_op: known_or(record.reduce_op, -1),
        peer: known_or(record.peer, -1),
        grouped: record.grouped != 0,
        stream_slot: record.slot,
        mark: record.mark,
    })
}
