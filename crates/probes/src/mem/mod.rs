//! Memory that was not there: page faults, reclaim, compaction, out-of-memory kills.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, mem as raw, read};
use gpuwhy_model::OomEvent;

pub(crate) static PROBE: Probe = Probe {
    name: "mem",
    about: "page faults and reclaim in the time of traced threads; out-of-memory kills",
    object: bpf_object!("mem"),
    attach: Attach::Tracepoints(&[
        "page_fault_user",
        "page_fault_kernel",
        "page_faults_min",
        "page_faults_maj",
        "mm_vmscan_direct_reclaim_begin",
        "mm_vmscan_direct_reclaim_end",
        "mm_vmscan_memcg_reclaim_begin",
        "mm_vmscan_memcg_reclaim_end",
        "mm_compaction_begin",
        "mm_compaction_end",
        "mark_victim",
    ]),
    when: When::Default,
    needs: Some("sched"),
    cost: "a task-storage look-up at the beginning and the end of each page fault of the host",
};

pub(crate) fn decode_oom(bytes: &[u8], clock_offset_ns: u64) -> Option<OomEvent> {
    let record: raw::oom_record = read(bytes)?;
    Some(OomEvent {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.victim,
        cgroup_id: record.head.cgroup_id,
        by_pid: record.head.tgid,
        by_tid: record.head.tid,
        by_comm: String::new(),
    })
}
