//! Births, exec and deaths of traced processes and threads.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, process as raw, read, text};
use gpuwhy_model::{ProcessEvent, ProcessEventKind};

pub(crate) static PROBE: Probe = Probe {
    name: "process",
    about: "exec, exit, fork and thread births of traced processes",
    object: bpf_object!("process"),
    attach: Attach::Tracepoints(&["sched_process_fork", "sched_process_exec", "sched_process_exit"]),
    when: When::Always,
    needs: None,
    cost: "a map look-up at each fork, exec and exit of the host",
};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<ProcessEvent> {
    let record: raw::process_record = read(bytes)?;
    Some(ProcessEvent {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        kind: match record.event {
            raw::PROCESS_SEEN => ProcessEventKind::Seen,
            raw::PROCESS_FORK => ProcessEventKind::Fork,
            raw::PROCESS_THREAD => ProcessEventKind::Thread,
            raw::PROCESS_EXEC => ProcessEventKind::Exec,
            raw::PROCESS_EXIT => ProcessEventKind::Exit,
            raw::PROCESS_THREAD_EXIT => ProcessEventKind::ThreadExit,
            _ => return None,
        },
        pid: record.head.tgid,
        tid: record.head.tid,
        child: record.child,
        exit_code: record.exit_code,
        cgroup_id: record.head.cgroup_id,
        comm: text(&record.comm),
        waits_only: record.waits_only != 0,
    })
}
