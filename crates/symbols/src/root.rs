//! Files as a process sees them: in its own root, links resolved there too.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// The root folder of a process.
pub(crate) struct Root {
    folder: Option<File>,
}

impl Root {
    pub(crate) fn of(pid: u32) -> Root {
        Root { folder: File::open(format!("/proc/{pid}/root/")).ok() }
    }

    pub(crate) fn host() -> Root {
        Root { folder: File::open("/").ok() }
    }

    pub(crate) fn is_hosts(&self) -> bool {
        let ours = self.folder.as_ref().and_then(|folder| folder.metadata().ok());
        let hosts = fs::metadata("/").ok();
        let key = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        ours.map(key) == hosts.map(key)
    }

    /// A regular file. No link leads out of the root, and pipes and devices are not opened.
    pub(crate) fn open(&self, path: &str) -> Option<File> {
        let folder = self.folder.as_ref()?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let path = path.trim_start_matches('/');
        let found =
            File::from(openat2(folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?);
        regular(&format!("/proc/self/fd/{}", found.as_raw_fd()))
    }
}

/// A file that can be read without waiting for somebody at the other end.
pub(crate) fn regular(path: &str) -> Option<File> {
    fs::metadata(path).ok()?.is_file().then_some(())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()
}
