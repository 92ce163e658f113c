//! TCP retransmits.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, bytes_of, read, sched, tcp as raw};
use crate::wait_event::decode_ends;
use gpuwhy_model::TcpEvent;

pub(crate) static PROBE: Probe = Probe {
    name: "tcp",
    about: "TCP retransmits of both address families, by the socket's owner",
    object: bpf_object!("tcp"),
    attach: Attach::Tracepoints(&["inet_sock_set_state", "sock_send_length", "tcp_retransmit_skb"]),
    when: When::Default,
    needs: None,
    cost: "a short program at each connection's change of state, at each send (a lookup), and at each retransmit",
};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<TcpEvent> {
    let record: raw::tcp_record = read(bytes)?;
    // The same struct of the same header, generated once for each object.
    let ends: sched::ends = read(bytes_of(&record.ends))?;
    Some(TcpEvent {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        tid: record.head.tid,
        cgroup_id: record.head.cgroup_id,
        ends: decode_ends(&ends),
        inode: record.inode,
        seq: record.seq,
        bytes: record.bytes,
        srtt_us: record.srtt_us,
        retransmits: record.retransmits,
        rank: None,
    })
}
