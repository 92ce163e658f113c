//! What the kernel could not say of the host's events: names of files, devices and threads, and whose socket it was.

use gpuwhy_model::{Batch, Part, Process, ProcessEventKind, Reason};
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// All descriptors of all processes are gone through at most so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A socket that was nobody's is looked for again after this time.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Sockets and names remembered; beyond it all are forgotten.
const MAX_KNOWN: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct HostEvents {
    devices: HashMap<(u32, u32), Option<String>>,
    /// Owners by inode.
    sockets: HashMap<u64, u32>,
    threads: HashMap<(u32, u32), String>,
    looked: Option<Instant>,
    /// Sockets that were nobody's when they were last looked for: the kernel's, those of processes that are gone, and those
    /// not accepted yet.
    nobodys: HashMap<u64, Instant>,
    /// The sockets of traced processes were listed for this batch.
    is_listed: bool,
}

impl HostEvents {
    pub(crate) fn complete(&mut self, batch: &mut Batch, processes: &HashMap<u32, Process>) {
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Thread => self.name_thread(event.pid, event.child, &event.comm),
                ProcessEventKind::Fork => self.name_thread(event.child, event.child, &event.comm),
                ProcessEventKind::Seen | ProcessEventKind::Exec => {
                    self.name_thread(event.pid, event.tid, &event.comm);
                }
                ProcessEventKind::Exit | ProcessEventKind::ThreadExit => {}
            }
        }
        for wait in &mut batch.wait_events {
            if let Some(file) = &mut wait.file {
                file.path = path_of(wait.pid, file.fd);
                file.device_name = self.device_name(file.device);
            }
            if wait.by_comm.is_empty() && wait.by_tid != 0 {
                wait.by_comm = self.thread_name(wait.by_pid, wait.by_tid);
            }
        }
        // Only a lock's holder is told by number alone.
        for wait in &mut batch.waits {
            if wait.by_comm.is_empty() && wait.by_tid != 0 && wait.part == Part::Blocked(Reason::Gil) {
                wait.by_comm = self.thread_name(wait.by_pid, wait.by_tid);
            }
        }
        for request in &mut batch.io_events {
            request.device_name = self.device_name(request.device);
        }
        self.is_listed = false;
        for event in &mut batch.tcp_events {
            if event.pid == 0 {
                event.pid = self.owner_of(event.inode, processes).unwrap_or(0);
            }
            event.rank = processes.get(&event.pid).and_then(|process| process.rank);
        }
        for kill in &mut batch.oom_events {
            kill.by_comm = self.thread_name(kill.by_pid, kill.by_tid);
        }
    }

    fn device_name(&mut self, device: (u32, u32)) -> Option<String> {
        let (major, minor) = device;
        self.devices
            .entry(device)
            .or_insert_with(|| {
                let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
                text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(ToString::to_string)
            })
            .clone()
    }

    /// What it was called when it began; it may call itself something else by now.
    fn name_thread(&mut self, pid: u32, tid: u32, name: &str) {
        if self.threads.len() >= MAX_KNOWN {
            self.threads.clear();
        }
        self.threads.insert((pid, tid), name.to_string());
    }

    fn thread_name(&self, pid: u32, tid: u32) -> String {
        if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")) {
            return name.trim_end().to_string();
        }
        self.threads.get(&(pid, tid)).cloned().unwrap_or_default()
    }

    /// Traced processes first; all others not too often.
    fn owner_of(&mut self, inode: u64, traced: &HashMap<u32, Process>) -> Option<u32> {
        if inode == 0 {
            return None;
        }
        if let Some(pid) = self.sockets.get(&inode) {
            return Some(*pid);
        }
        if self.nobodys.get(&inode).is_some_and(|looked| looked.elapsed() < AGAIN_AFTER) {
            return None;
        }
        let found = self.find_owner(inode, traced);
        if found.is_none() {
            if self.nobodys.len() >= MAX_KNOWN {
                self.nobodys.clear();
            }
            self.nobodys.insert(inode, Instant::now());
        }
        found
    }

    fn find_owner(&mut self, inode: u64, traced: &HashMap<u32, Process>) -> Option<u32> {
        if self.sockets.len() >= MAX_KNOWN {
            self.sockets.clear();
        }
        if !self.is_listed {
            self.is_listed = true;
            self.list_traced(traced);
        }
        if let Some(pid) = self.sockets.get(&inode) {
            return Some(*pid);
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        for pid in gpuwhy_host::pids() {
            self.list(pid);
        }
        // What it shares with others is a traced process's.
        self.list_traced(traced);
        self.sockets.get(&inode).copied()
    }

    fn list_traced(&mut self, traced: &HashMap<u32, Process>) {
        for process in traced.values().filter(|process| process.end_ns.is_none()) {
            self.list(process.pid);
        }
    }

    fn list(&mut self, pid: u32) {
        self.sockets.extend(sockets_of(pid).into_iter().map(|inode| (inode, pid)));
    }
}

/// As the process sees it.
fn path_of(pid: u32, fd: i32) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok().map(|path| path.display().to_string())
}

/// Inodes of the sockets a process has open.
fn sockets_of(pid: u32) -> Vec<u64> {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    fds.filter_map(|fd| {
        let target = fs::read_link(fd.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", one.as_raw_fd())).unwrap().ino();
        let own = std::process::id();
        assert!(sockets_of(own).contains(&inode));
        let mut events = HostEvents::default();
        assert_eq!(events.owner_of(inode, &HashMap::new()), Some(own));
        // One that is not found is not looked for at once again.
        let unknown = u64::MAX;
        assert_eq!(events.owner_of(unknown, &HashMap::new()), None);
        let looked = events.nobodys[&unknown];
        assert_eq!(events.owner_of(unknown, &HashMap::new()), None);
        assert_eq!(events.nobodys[&unknown], looked);
    }
}
