//! Files as somebody else sees them: below a root that is not ours, links resolved there too.

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// A folder below which files are opened as if it were `/`: links that lead out of it end in it.
#[derive(Debug)]
pub struct Inside {
    folder: OwnedFd,
}

impl Inside {
    pub fn of(folder: &Path) -> Option<Inside> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Some(Inside { folder: openat(CWD, folder, flags, Mode::empty()).ok()? })
    }

    /// What a process sees as `/`, whatever container it is in; nothing if it is gone.
    pub fn of_process(pid: u32) -> Option<Inside> {
        Inside::of_process_below(Path::new("/"), pid)
    }

    /// The same where `/proc` is below another folder, as in tests.
    pub fn of_process_below(folder: &Path, pid: u32) -> Option<Inside> {
        Inside::of(&folder.join(format!("proc/{pid}/root")))
    }

    pub fn is_same(&self, other: &Inside) -> bool {
        let id = |inside: &Inside| fstat(&inside.folder).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        id(self) == id(other)
    }

    /// A regular file.
    pub fn open(&self, path: &str) -> Option<File> {
        reopened(&self.find(path, OFlags::PATH)?)
    }

    /// Names in a folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Some(folder) = self.find(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return Vec::new() };
        let Ok(folder) = Dir::read_from(&folder) else { return Vec::new() };
        folder
            .take(MAX_ENTRIES)
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_string()))
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// Nor do the links of /proc lead anywhere.
    fn find(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }
}

/// The file at a path, if it is a regular one. What it is is found out before it is opened for reading: opening a device
/// may do things, and opening a pipe may wait for ever.
pub fn regular(path: &Path) -> Option<File> {
    reopened(&openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?)
}

/// The very file that was found, for reading: another one may have taken its place by now.
fn reopened(found: &OwnedFd) -> Option<File> {
    let is_regular = FileType::from_raw_mode(fstat(found).ok()?.st_mode) == FileType::RegularFile;
    is_regular.then_some(())?;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mknodat;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn text(inside: &Inside, path: &str) -> Option<String> {
        let mut text = String::new();
        inside.open(path)?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    #[test]
    fn links_do_not_lead_out_and_odd_files_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(root.join("secret"), "inside").unwrap();
        symlink("../../secret", root.join("etc/up")).unwrap();
        symlink(folder.path().join("secret"), root.join("etc/absolute")).unwrap();
        symlink("/secret", root.join("etc/own")).unwrap();
        symlink("loop", root.join("etc/loop")).unwrap();
        symlink("/proc/self/root/secret", root.join("etc/magic")).unwrap();
        mknodat(CWD, root.join("etc/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let inside = Inside::of(&root).unwrap();
        assert_eq!(text(&inside, "etc/up").as_deref(), Some("inside"));
        assert_eq!(text(&inside, "/etc/own").as_deref(), Some("inside"));
        for unreadable in ["etc/absolute", "etc/loop", "etc/magic", "etc", "etc/pipe", "etc/absent"] {
            assert!(inside.open(unreadable).is_none(), "{unreadable}");
        }
        let mut names = inside.names("etc");
        names.sort();
        assert_eq!(names, ["absolute", "loop", "magic", "own", "pipe", "up"]);
        assert!(inside.names("secret").is_empty());
    }

    #[test]
    fn roots_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (Inside::of(Path::new("/")).unwrap(), Inside::of(folder.path()).unwrap());
        assert!(!ours.is_same(&other));
        assert!(ours.is_same(&Inside::of_process(std::process::id()).unwrap()));
        assert!(Inside::of(&folder.path().join("absent")).is_none());
    }
}
