//! Library files that processes map, each reachable from here whatever container or deleted wheel it came from.

use gpuwhy_proc::{Mapping, Maps};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// An executable file mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    pub pid: u32,
    /// As the process sees it.
    pub path: String,
    pub inode: u64,
    /// Where it can be opened from here, and what `stat` says of it there.
    pub open_path: PathBuf,
    pub device: u64,
}

/// Every process there is.
pub fn pids() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The mapped files of all processes whose name `wanted` accepts.
pub fn mapped_files(wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    pids().into_iter().flat_map(|pid| mapped_files_of(pid, &wanted)).collect()
}

/// The mapped files of one process whose name `wanted` accepts; none if it is gone.
pub fn mapped_files_of(pid: u32, wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    let Ok(maps) = Maps::of(pid) else { return Vec::new() };
    let mut found: Vec<MappedFile> = Vec::new();
    for mapping in maps.iter().filter(|mapping| mapping.executable && mapping.is_file()) {
        if wanted(mapping.name()) && !found.iter().any(|file| file.inode == mapping.inode) {
            found.extend(open_mapped(pid, &mapping.path, mapping.inode, Some(&mapping)));
        }
    }
    found
}

/// A way to open a mapped file: by its path within the process's own root, else by the mapping itself.
pub fn open_mapped(pid: u32, path: &str, inode: u64, mapping: Option<&Mapping>) -> Option<MappedFile> {
    let through_root = PathBuf::from(format!("/proc/{pid}/root{path}"));
    let by_mapping = mapping.map(|mapping| mapping.map_file(pid));
    [Some(through_root), by_mapping].into_iter().flatten().find_map(|open_path| {
        let metadata = fs::metadata(&open_path).ok()?;
        (metadata.ino() == inode).then(|| MappedFile {
            pid,
            path: path.to_string(),
            inode,
            device: metadata.dev(),
            open_path,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_maps_its_libc() {
        let files = mapped_files_of(std::process::id(), |name| name.starts_with("libc.so"));
        assert!(files.iter().all(|file| file.open_path.exists()));
    }
}
