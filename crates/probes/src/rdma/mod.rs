//! Asynchronous events of RDMA devices, as programs read them: types only, never queue pairs or addresses.

use crate::function::Function;
use crate::probe::{Attach, Library, Probe, When};
use crate::raw::{bpf_object, rdma as raw, read};
use gpuwhy_model::{Family, Layer, RdmaEvent};

pub(crate) static PROBE: Probe = Probe {
    name: "rdma",
    about: "asynchronous events of RDMA devices (`ibv_get_async_event`), their type only; on with --rdma-verbs",
    object: bpf_object!("rdma"),
    attach: Attach::Functions(FUNCTIONS),
    when: When::Asked,
    needs: None,
    cost: "two traps an event",
};

static FUNCTIONS: &[Function] = &[
    // `(context, event out)`: waits for as long as all is well.
    Function::new(Library::Verbs, Layer::Rdma, "ibv_get_async_event", Family::Other).slow(1 << 40).hot(),
];

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<RdmaEvent> {
    let record: raw::async_event_record = read(bytes)?;
    Some(RdmaEvent {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        event: EVENTS
            .get(record.event_type as usize)
            .map_or_else(|| format!("IBV_EVENT_{}", record.event_type), |name| format!("IBV_EVENT_{name}")),
        pid: Some(record.head.tgid),
        tid: Some(record.head.tid),
        ..RdmaEvent::default()
    })
}

/// In the order of `enum ibv_event_type`.
const EVENTS: [&str; 20] = [
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "PATH_MIG",
    "PATH_MIG_ERR",
    "DEVICE_FATAL",
    "PORT_ACTIVE",
    "PORT_ERR",
    "LID_CHANGE",
    "PKEY_CHANGE",
    "SM_CHANGE",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER",
    "GID_CHANGE",
    "WQ_FATAL",
];
