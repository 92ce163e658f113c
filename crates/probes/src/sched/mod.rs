//! The blame clock: what the scheduler did to traced threads, and who was behind it.

use crate::call::WINDOW_NS;
use crate::irq;
use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, read, sched as raw, text};
use crate::wait_event::part_of;
use gpuwhy_model::{OpId, Part, Reason, Wait};

pub(crate) static PROBE: Probe = Probe {
    name: "sched",
    about: "the blame clock: waits of traced threads, by reason, preemptor and waker; who wakes them is followed too",
    object: bpf_object!("sched"),
    attach: Attach::Tracepoints(&["sched_switch", "sched_waking", "task"]),
    when: When::Default,
    needs: None,
    cost: "two task-storage look-ups at each context switch of the host",
};

pub(crate) fn decode_wait(key: &[u8], value: &[u8], clock_offset_ns: u64) -> Option<Wait> {
    let key: raw::wait_key = read(key)?;
    let sum: raw::wait_sum = read(value)?;
    let part = part_of(key.part);
    // An interrupt's number is in the place of a thread's.
    let (by_tid, by_comm) = match part {
        Part::Blocked(Reason::Interrupt) => (0, irq::name(key.by_tid.saturating_sub(1), &text(&sum.by_comm))),
        _ => (key.by_tid, text(&sum.by_comm)),
    };
    Some(Wait {
        window_start_ns: (u64::from(key.window) * WINDOW_NS).wrapping_add(clock_offset_ns),
        pid: key.tgid,
        tid: key.tid,
        op: OpId(key.op),
        part,
        by_pid: key.by_tgid,
        by_tid,
        by_comm,
        by_cgroup_id: sum.by_cgroup_id,
        ns: sum.ns,
        count: sum.count,
    })
}

/// [`Reason`] by system call number.
pub(crate) fn syscall_reasons() -> Vec<u8> {
    let mut reasons = vec![Reason::Other as u8; 512];
    for (reason, calls) in SYSCALLS {
        for nr in *calls {
            if let Some(slot) = usize::try_from(*nr).ok().and_then(|nr| reasons.get_mut(nr)) {
                *slot = *reason as u8;
            }
        }
    }
    reasons
}

/// System calls that wake a futex waiter on purpose; a thread's end does, for whoever joins it.
pub(crate) fn futex_wakers() -> Vec<u8> {
    /// `futex_wake` of 6.7; libc has no name for it on every target.
    const FUTEX_WAKE: i64 = 454;
    [libc::SYS_futex, libc::SYS_exit, libc::SYS_exit_group, FUTEX_WAKE]
        .into_iter()
        .flat_map(|nr| (nr as u32).to_le_bytes())
        .collect()
}

static SYSCALLS: &[(Reason, &[i64])] = &[
    (Reason::Futex, &[libc::SYS_futex, libc::SYS_futex_waitv, 454, 455]),
    (
        Reason::File,
        &[
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
            libc::SYS_openat,
            libc::SYS_close,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_copy_file_range,
            libc::SYS_splice,
            libc::SYS_statx,
            libc::SYS_flock,
            libc::SYS_fcntl,
        ],
    ),
    (
        Reason::Socket,
        &[
            libc::SYS_sendto,
            libc::SYS_recvfrom,
            libc::SYS_sendmsg,
            libc::SYS_recvmsg,
            libc::SYS_sendmmsg,
            libc::SYS_recvmmsg,
            libc::SYS_connect,
            libc::SYS_accept,
            libc::SYS_accept4,
        ],
    ),
    (Reason::Poll, &[libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2]),
    #[cfg(target_arch = "x86_64")]
    (Reason::Poll, &[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait]),
    (Reason::Ioctl, &[libc::SYS_ioctl]),
    (Reason::Sleep, &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]),
];
