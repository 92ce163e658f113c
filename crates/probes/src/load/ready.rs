//! Detaching at a planned time without delay. Whoever changes a probe site takes the kernel's `dup_mmap_sem` for writing,
//! and the first to do so after a pause waits for a grace period of RCU (`percpu_down_write`, `rcu_sync_enter`): tens of
//! milliseconds, in which the sites that are to go still trap. Others that follow at once do not wait. So shortly before,
//! a site of the agent's own is changed, which nothing runs over.

use super::features::own_site;
use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A grace period may take so long.
const BEFORE: Duration = Duration::from_millis(30);
/// And whoever detaches may be late by so much.
const AFTER: Duration = Duration::from_millis(12);
/// The effect lasts for a grace period, which is hardly shorter.
const EVERY: Duration = Duration::from_millis(6);

/// A thread that makes the kernel ready.
#[derive(Debug)]
pub(super) struct Ready {
    times: Sender<Instant>,
}

impl Ready {
    /// Nothing where the kernel has no such events: detaching takes its time there.
    pub(super) fn start() -> Option<Ready> {
        let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?;
        let kind: u64 = kind.trim().parse().ok()?;
        let (path, offset) = own_site().ok()?;
        let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        let (times, asked) = channel();
        let run = move || make_ready(&asked, kind, &path, offset as u64);
        std::thread::Builder::new().name("gpuwhy-ready".into()).spawn(run).ok()?;
        Some(Ready { times })
    }

    /// Something is to be detached at this time.
    pub(super) fn at(&self, time: Instant) {
        // A thread that is gone changes nothing but how long it takes.
        let _ = self.times.send(time);
    }
}

fn make_ready(asked: &Receiver<Instant>, kind: u64, path: &CString, offset: u64) {
    while let Ok(time) = asked.recv() {
        std::thread::sleep(time.saturating_duration_since(Instant::now()).saturating_sub(BEFORE));
        let mut events = Vec::new();
        while Instant::now() < time + AFTER {
            events.extend(open(kind, path, offset));
            std::thread::sleep(EVERY);
        }
        // Closing them waits, here, where nobody else does.
        drop(events);
    }
}

/// A perf event on the site.
fn open(kind: u64, path: &CString, offset: u64) -> Option<OwnedFd> {
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    // struct perf_event_attr in words: type and size, then uprobe_path and probe_offset.
    let mut attr = [0u64; 16];
    attr[0] = kind | ((size_of_val(&attr) as u64) << 32);
    attr[7] = path.as_ptr() as u64;
    attr[8] = offset;
    // SAFETY: the kernel reads `size` bytes of attr and the path, both alive; a new descriptor is ours.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), -1, 0, -1, PERF_FLAG_FD_CLOEXEC) };
    // SAFETY: just opened, owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
