//! Files as somebody else sees them: below a root that is not ours, links resolved there too.

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most entries of a folder that are looked at.
const MOST_ENTRIES: usize = 10_000;

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
        Inside::of(Path::new(&format!("/proc/{pid}/root")))
    }

    pub fn is_same(&self, other: &Inside) -> bool {
        let id = |inside: &Inside| fstat(&inside.folder).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        id(self) == id(other)
    }

    /// A regular file.
    pub fn open(&self, path: &str) -> Option<File> {
        // By the file itself: another one may have taken its place since it was found.
        let found = self.find(path, OFlags::PATH)?;
        regular(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
    }

    /// Names in a folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Some(folder) = self.find(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return Vec::new() };
        let Ok(folder) = Dir::read_from(&folder) else { return Vec::new() };
        folder
            .take(MOST_ENTRIES)
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

/// A file of ours, if it is a regular one. What it is is found out before it is opened: opening a device may do things,
/// and one that has become a pipe since, which nobody writes to, must not hold us up.
pub fn regular(path: &Path) -> Option<File> {
    let is_regular = |metadata: fs::Metadata| metadata.is_file().then_some(());
    is_regular(fs::metadata(path).ok()?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    is_regular(file.metadata().ok()?)?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};
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
