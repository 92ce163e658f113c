//! Files that are read without trusting who wrote them: never more than so much, never out of the root they are below.

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The most that is read of any file.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
/// The most entries of a folder that are looked at.
pub(crate) const MOST_ENTRIES: usize = 10_000;
/// The longest name kept of what others may write as they like.
const MOST_WORD: usize = 512;

/// The host's files: those below `/`, or below a folder that stands for it in tests.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
}

impl Default for Root {
    fn default() -> Root {
        Root::at(Path::new("/"))
    }
}

impl Root {
    pub fn at(folder: &Path) -> Root {
        Root { folder: folder.into() }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// For files of the kernel, whose way nobody can bend.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        bounded(File::open(self.path(path)).ok()?)
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn of_process(&self, pid: u32, name: &str) -> Option<String> {
        self.text(&format!("proc/{pid}/{name}"))
    }

    /// What a process sees as `/`, whatever container it is in.
    pub(crate) fn inside(&self, pid: u32) -> Option<Inside> {
        Inside::of(&self.path(&format!("proc/{pid}/root")))
    }

    /// The host as seen from here, and as its first process sees it: the agent may be in a container itself.
    pub(crate) fn hosts(&self) -> Vec<Inside> {
        let own = Inside::of(&self.folder);
        let first = self.inside(1).filter(|first| own.as_ref().is_none_or(|own| !own.is_same(first)));
        own.into_iter().chain(first).collect()
    }
}

/// A folder below which files are opened as if it were `/`: links that lead out of it end in it.
#[derive(Debug)]
pub(crate) struct Inside {
    folder: OwnedFd,
    shown: PathBuf,
}

impl Inside {
    fn of(path: &Path) -> Option<Inside> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
        Some(Inside { folder, shown: path.into() })
    }

    /// Where it lies, for what is not a file.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    fn is_same(&self, other: &Inside) -> bool {
        let id =
            |inside: &Inside| rustix::fs::fstat(&inside.folder).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        id(self) == id(other)
    }

    /// Nor do the links of /proc lead anywhere.
    fn open(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        // What it is is found out before it is opened: opening a device may do things.
        let what = rustix::fs::fstat(self.open(path, OFlags::PATH)?).ok()?;
        if FileType::from_raw_mode(what.st_mode) != FileType::RegularFile {
            return None;
        }
        // It may have become something else since: a pipe that nobody writes must not hold us up.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let what = rustix::fs::fstat(&file).ok()?;
        if FileType::from_raw_mode(what.st_mode) != FileType::RegularFile {
            return None;
        }
        bounded(file.into()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn json(&self, path: &str) -> Option<serde_json::Value> {
        serde_json::from_str(&self.text(path)?).ok()
    }

    /// The one word a file holds.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        word(&self.text(path)?)
    }

    /// Names in a folder.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Some(folder) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return Vec::new() };
        let Ok(folder) = rustix::fs::Dir::read_from(&folder) else { return Vec::new() };
        folder
            .take(MOST_ENTRIES)
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_string()))
            .filter(|name| name != "." && name != "..")
            .collect()
    }
}

/// What a file holds, if that is not too much: half a file would be read wrongly.
fn bounded(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MOST_BYTES).then_some(bytes)
}

/// A name that somebody else chose: one line, without what a terminal would act on, not too long. Nothing if nothing
/// is left.
pub(crate) fn word(text: &str) -> Option<String> {
    let line = text.trim_matches(['\0', '\n', '\r', ' ', '\t']).lines().next()?;
    let word: String = line.chars().filter(|c| !c.is_control()).take(MOST_WORD).collect();
    let word = word.trim();
    (!word.is_empty()).then(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_do_not_lead_out_and_odd_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(root.join("secret"), "inside").unwrap();
        symlink("../../secret", root.join("etc/up")).unwrap();
        symlink(folder.path().join("secret"), root.join("etc/absolute")).unwrap();
        symlink("/secret", root.join("etc/own")).unwrap();
        symlink("loop", root.join("etc/loop")).unwrap();
        fs::write(root.join("etc/large"), vec![b'x'; MOST_BYTES as usize + 1]).unwrap();
        fs::write(root.join("etc/odd"), b"a\x1b[31m\0b\xff\nsecond").unwrap();
        rustix::fs::mknodat(CWD, root.join("etc/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let inside = Inside::of(&root).unwrap();
        assert_eq!(inside.text("etc/up").as_deref(), Some("inside"));
        assert_eq!(inside.text("etc/absolute"), None);
        assert_eq!(inside.text("/etc/own").as_deref(), Some("inside"));
        for unreadable in ["etc/loop", "etc/large", "etc", "etc/pipe", "etc/absent"] {
            assert_eq!(inside.text(unreadable), None, "{unreadable}");
        }
        assert_eq!(inside.word("etc/odd").as_deref(), Some("a[31mb\u{fffd}"));
        let mut names = inside.names("etc");
        names.sort();
        assert_eq!(names, ["absolute", "large", "loop", "odd", "own", "pipe", "up"]);
        assert!(inside.names("etc/odd").is_empty());
    }

    #[test]
    fn words_are_tame() {
        assert_eq!(word("  a b \n c"), Some("a b".into()));
        assert_eq!(word("\0\n "), None);
        assert_eq!(word(&"x".repeat(10_000)).unwrap().len(), MOST_WORD);
    }
}
