//! Disk requests of traced processes.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, io as raw, read};
use crate::wait_event::device_of;
use gpuwhy_model::IoEvent;

pub(crate) static PROBE: Probe = Probe {
    name: "io",
    about: "disk requests of traced processes that took long or failed, with who asked and on which device",
    object: bpf_object!("io"),
    attach: Attach::Tracepoints(&["block_bio_queue", "block_rq_issue", "block_rq_complete"]),
    when: When::Default,
    needs: Some("sched"),
    cost: "a map look-up at each disk request of the host",
};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<IoEvent> {
    let record: raw::io_record = read(bytes)?;
    Some(IoEvent {
        start_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        duration_ns: record.duration_ns,
        queue_ns: record.queue_ns,
        pid: record.head.tgid,
        tid: record.head.tid,
        cgroup_id: record.head.cgroup_id,
        device: device_of(record.device),
        device_name: None,
        sector: record.sector,
        bytes: record.bytes.into(),
        rw: operation(record.flags).into(),
        ret: record.ret,
    })
}

/// The lowest byte of the kernel's flags is the operation.
fn operation(flags: u32) -> &'static str {
    match flags & 0xff {
        0 => "read",
        1 => "write",
        2 => "flush",
        3 | 5 => "discard",
        _ => "other",
    }
}
