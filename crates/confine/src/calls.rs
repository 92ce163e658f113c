//! System calls that a thread may make, by a seccomp filter. The others fail with EPERM: a call that was forgotten here
//! costs an answer, not the process.

use crate::Purpose;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Memory, time, locks, signals, and what is open already.
const COMPUTE: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What is done with a connection once there is one.
const CONNECTIONS: &[libc::c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Threads of the same kind.
const THREADS: &[libc::c_long] = &[libc::SYS_clone, libc::SYS_clone3];

/// What a database does with files that it has open. The C library asks for a file's size by a call that takes a path.
const WRITES: &[libc::c_long] = &[
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_geteuid,
    libc::SYS_newfstatat,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
];

/// What a database does with its files.
const FILES: &[libc::c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_geteuid,
    libc::SYS_getuid,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_unlinkat,
];

/// What a database asks of the machine it runs on.
const MACHINE: &[libc::c_long] =
    &[libc::SYS_getrusage, libc::SYS_getpriority, libc::SYS_prlimit64, libc::SYS_sysinfo, libc::SYS_uname];

/// Older spellings, which other machines do not have.
#[cfg(target_arch = "x86_64")]
const OLD_COMPUTE: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "x86_64")]
const OLD_CONNECTIONS: &[libc::c_long] = &[libc::SYS_epoll_wait];
#[cfg(target_arch = "x86_64")]
const OLD_FILES: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_COMPUTE: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CONNECTIONS: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILES: &[libc::c_long] = &[];

/// What nobody who serves has any business with: programs, probes, other processes, the machine.
const NEVER: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

pub(crate) fn restrict(purpose: &Purpose) -> bool {
    filter(purpose).is_some_and(|program| apply_filter(&program).is_ok())
}

fn filter(purpose: &Purpose) -> Option<BpfProgram> {
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let (calls, listed, others): (Vec<libc::c_long>, _, _) = match purpose {
        Purpose::Parse => ([COMPUTE, OLD_COMPUTE].concat(), SeccompAction::Allow, refuse),
        Purpose::Talk => {
            ([COMPUTE, OLD_COMPUTE, CONNECTIONS, OLD_CONNECTIONS].concat(), SeccompAction::Allow, refuse)
        }
        Purpose::Compute => ([COMPUTE, OLD_COMPUTE, THREADS, WRITES].concat(), SeccompAction::Allow, refuse),
        Purpose::Write => ([COMPUTE, OLD_COMPUTE, WRITES].concat(), SeccompAction::Allow, refuse),
        Purpose::Read(_) | Purpose::Open(_) | Purpose::Store(_) | Purpose::Answer(_) => {
            ([COMPUTE, OLD_COMPUTE, FILES, OLD_FILES].concat(), SeccompAction::Allow, refuse)
        }
        Purpose::Database(_) => (
            [COMPUTE, OLD_COMPUTE, THREADS, FILES, OLD_FILES, MACHINE].concat(),
            SeccompAction::Allow,
            refuse,
        ),
        Purpose::Serve | Purpose::Spool(_) | Purpose::Look | Purpose::Drive => {
            (NEVER.to_vec(), refuse, SeccompAction::Allow)
        }
        Purpose::Start | Purpose::Front(_) => {
            let but_programs = |call: &libc::c_long| ![libc::SYS_execve, libc::SYS_execveat].contains(call);
            (NEVER.iter().copied().filter(but_programs).collect(), refuse, SeccompAction::Allow)
        }
    };
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let machine = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    SeccompFilter::new(rules, others, listed, machine).ok()?.try_into().ok()
}
