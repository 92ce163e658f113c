//! Looks for libraries that a process may map later, in a thread of its own, as folders of strangers may be on disks that
//! do not answer. What it finds is attached before its code runs.

use crate::discovery;
use crate::preparing::{Preparer, SharedKnown};
use gpuwhy_confine::{Purpose, live};
use gpuwhy_host::{Hint, foreseen};
use gpuwhy_probes::LibraryFile;
use gpuwhy_proc::FileId;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

const NAME: &str = "gpuwhy-foresee";
/// Hints that may wait; more are dropped: what they would have told is found when it is mapped.
const QUEUE: usize = 256;
/// Hints remembered as followed, and files as found; beyond it all are forgotten.
const MAX: usize = 4096;
/// It rests so many times as long as it works: a host that starts interpreters by the thousand must not notice.
const REST: u32 = 4;
const MAX_REST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Foresight {
    /// Nothing where no thread could be started.
    hints: Option<SyncSender<(u32, Hint)>>,
    found: Receiver<LibraryFile>,
    ready: Option<Arc<OwnedFd>>,
    followed: HashSet<(u32, Hint)>,
}

impl Foresight {
    pub(crate) fn start(known: SharedKnown) -> Foresight {
        let (hints, inbox) = sync_channel(QUEUE);
        let (outbox, found) = channel();
        let ready = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok().map(Arc::new);
        let wake = ready.clone();
        // Made here: a confined thread cannot make one that has another user.
        let preparer = Preparer::start(known);
        let spawned = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            let mut sent = HashSet::new();
            live(NAME, &Purpose::Look, || look(&inbox, &outbox, wake.as_deref(), &preparer, &mut sent));
        });
        Foresight { hints: spawned.ok().map(|_| hints), found, ready, followed: HashSet::new() }
    }

    /// A process maps a file. Whether it may use GPU libraries later, as far as that tells.
    pub(crate) fn see(&mut self, pid: u32, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let Some(hint) = Hint::of(path, discovery::is_library(name)) else { return false };
        let Some(hints) = &self.hints else { return true };
        if self.followed.len() >= MAX {
            self.followed.clear();
        }
        let followed = (pid, hint);
        if !self.followed.contains(&followed) && hints.try_send(followed.clone()).is_ok() {
            self.followed.insert(followed);
        }
        true
    }

    /// The number may be given to another process.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.followed.retain(|(followed, _)| *followed != pid);
    }

    /// Readable when files were found.
    pub(crate) fn ready_fd(&self) -> Option<i32> {
        self.ready.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn take(&mut self) -> Vec<LibraryFile> {
        // Before the files: what is sent in between wakes the next turn, and nothing wakes it for ever.
        if let Some(ready) = &self.ready {
            let _ = rustix::io::read(&**ready, &mut [0u8; 8]);
        }
        self.found.try_iter().collect()
    }
}

fn look(
    inbox: &Receiver<(u32, Hint)>,
    outbox: &Sender<LibraryFile>,
    ready: Option<&OwnedFd>,
    preparer: &Preparer,
    sent: &mut HashSet<FileId>,
) {
    for (pid, hint) in inbox {
        let began = Instant::now();
        let mut files = discovery::from_mappings(foreseen(pid, &hint, discovery::is_library));
        files.retain(|file| sent.insert(file.file.id()));
        files.sort_by_key(|file| discovery::turn(file.library));
        for mut file in files {
            preparer.prepare(&mut file);
            if outbox.send(file).is_err() {
                return;
            }
            if let Some(ready) = ready {
                // Full means that it is readable already.
                let _ = rustix::io::write(ready, &1u64.to_ne_bytes());
            }
        }
        if sent.len() >= MAX {
            sent.clear();
        }
        std::thread::sleep((began.elapsed() * REST).min(MAX_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_proc::TargetFile;

    #[test]
    fn a_library_beside_another_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libnccl.so.2"), "no library").unwrap();
        std::fs::write(folder.path().join("libcudart.so.12"), "nor this").unwrap();
        let mut foresight = Foresight::start(SharedKnown::default());
        let path = folder.path().join("libcuda.so.1").display().to_string();
        let own = std::process::id();
        foresight.see(own, "/usr/bin/true");
        foresight.see(own, &path);
        foresight.see(own, &path);
        let mut found = Vec::new();
        while found.len() < 2 {
            let mut fds =
                [rustix::event::PollFd::new(foresight.ready.as_ref().unwrap(), rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, None).unwrap();
            found.extend(foresight.take());
        }
        let nccl = TargetFile::at(&folder.path().join("libnccl.so.2")).unwrap();
        assert!(found.iter().any(|file| file.file.id() == nccl.id() && file.pid == Some(own)));
        assert!(found.iter().all(|file| file.sites.is_none()), "they are no libraries");
    }
}
