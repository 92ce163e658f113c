//! A file of a traced process, opened: the only shape in which other crates get one.

use crate::inside::{Inside, regular};
use crate::look;
use crate::maps::{Mapping, Maps};
use rustix::fs::fstatfs;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file by what it is, not by one of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// A regular file that was opened without trust in its path. It stays the same file, whatever its path leads to later.
#[derive(Debug, Clone)]
pub struct TargetFile {
    file: Arc<File>,
    id: FileId,
}

impl TargetFile {
    /// A file by its path on this host, for those that belong to no process yet.
    pub fn at(path: &Path) -> Option<TargetFile> {
        TargetFile::of(regular(path)?)
    }

    /// A file as somebody else sees it.
    pub fn inside(root: &Inside, path: &str) -> Option<TargetFile> {
        TargetFile::of(root.open(path)?)
    }

    /// The file behind a mapping: by its path within the process's own root where that is the same file, else by the
    /// mapping itself. Its file system may not answer.
    pub fn mapped(pid: u32, mapping: &Mapping) -> Option<TargetFile> {
        let mapping = mapping.clone();
        look(pid, move || TargetFile::mapped_now(pid, &mapping))?
    }

    fn mapped_now(pid: u32, mapping: &Mapping) -> Option<TargetFile> {
        let by_path = || Inside::of_process(pid)?.open(&mapping.path).and_then(TargetFile::of);
        let by_path = if mapping.deleted { None } else { by_path() };
        by_path.filter(|found| found.is_of(mapping)).or_else(|| TargetFile::at(&mapping.map_file(pid)))
    }

    fn of(file: File) -> Option<TargetFile> {
        let metadata = file.metadata().ok()?;
        let id = FileId { device: metadata.dev(), inode: metadata.ino() };
        Some(TargetFile { file: Arc::new(file), id })
    }

    fn is_of(&self, mapping: &Mapping) -> bool {
        let same_inode = self.id.inode == mapping.file.inode;
        same_inode && (self.id.device == mapping.file.device || self.has_other_device_when_mapped())
    }

    /// Maps name the device of the filesystem below an overlay, and that of the whole of a btrfs with subvolumes.
    fn has_other_device_when_mapped(&self) -> bool {
        const OVERLAYFS: i64 = 0x794c_7630;
        const BTRFS: i64 = 0x9123_683e;
        fstatfs(&*self.file).is_ok_and(|filesystem| matches!(filesystem.f_type, OVERLAYFS | BTRFS))
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// It has no name any more; whoever has it open or mapped still has it.
    pub fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// The file alone, if nobody else holds it.
    pub fn into_file(self) -> Option<File> {
        Arc::into_inner(self.file)
    }

    /// For interfaces of the kernel that take a path: it leads to this very file as long as it is open.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// An executable file mapping of a process.
#[derive(Debug, Clone)]
pub struct MappedFile {
    pub pid: u32,
    /// As the process sees it.
    pub path: String,
    pub file: TargetFile,
}

impl MappedFile {
    /// The executable files of a process whose names `wanted` accepts, each once; none if it is gone.
    pub fn of_process(pid: u32, wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
        let Ok(maps) = Maps::of(pid) else { return Vec::new() };
        let mut mappings: Vec<Mapping> = Vec::new();
        for mapping in maps.iter().filter(|mapping| mapping.executable && mapping.is_file()) {
            let is_new = || !mappings.iter().any(|known| known.file == mapping.file);
            if mappings.len() < MAX_FILES && wanted(mapping.name()) && is_new() {
                mappings.push(mapping);
            }
        }
        let open = |mapping: Mapping| {
            let file = TargetFile::mapped(pid, &mapping)?;
            Some(MappedFile { pid, path: mapping.path, file })
        };
        mappings.into_iter().filter_map(open).collect()
    }
}

/// Of one process: a real one has a handful of GPU libraries.
const MAX_FILES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mapping(path: &str, file: FileId) -> Mapping {
        let text = format!("10000-20000 r-xp 00000000 00:00 {} {path}", file.inode);
        let mut mapping = Maps::from(text.as_bytes()).iter().next().unwrap();
        mapping.file = file;
        mapping
    }

    #[test]
    fn a_file_is_known_by_device_and_inode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so.1");
        fs::write(&path, "it").unwrap();
        let shown = path.display().to_string();
        let id = TargetFile::at(&path).unwrap().id();
        let own = std::process::id();
        assert_eq!(TargetFile::mapped(own, &mapping(&shown, id)).unwrap().id(), id);
        let other_inode = FileId { inode: id.inode + 1, ..id };
        assert!(TargetFile::mapped(own, &mapping(&shown, other_inode)).is_none());
        let is_plain = !TargetFile::at(&path).unwrap().has_other_device_when_mapped();
        let other_device = FileId { device: id.device + 1, ..id };
        assert_eq!(TargetFile::mapped(own, &mapping(&shown, other_device)).is_none(), is_plain);
    }

    #[test]
    fn a_file_stays_the_same_when_its_path_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so.1");
        fs::write(&path, "first").unwrap();
        let file = TargetFile::at(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "second").unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"first");
        assert!(file.is_deleted() && !TargetFile::at(&path).unwrap().is_deleted());
        assert!(TargetFile::at(folder.path()).is_none(), "a folder is no file");
        assert!(TargetFile::at(Path::new("/dev/null")).is_none(), "nor is a device");
    }

    #[test]
    fn this_process_maps_its_libc_once() {
        let files = MappedFile::of_process(std::process::id(), |name| name.starts_with("libc.so"));
        assert!(files.len() <= 1 && files.iter().all(|file| file.file.path().exists()));
        assert!(MappedFile::of_process(u32::MAX, |_| true).is_empty());
    }
}
