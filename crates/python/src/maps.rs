//! What a process has mapped from files.

use gpuwhy_proc::{Mapping, Maps};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// All file mappings of a process.
pub(crate) fn mappings(pid: u32) -> std::io::Result<Vec<Mapping>> {
    Ok(Maps::of(pid)?.iter().filter(Mapping::is_file).collect())
}

/// Where the file can be opened from here: in the process's own root, or, where it was deleted or replaced since,
/// by the mapping itself. An overlay's files may have another inode in the map than to `stat`, so where mappings
/// may not be opened the path is believed.
pub(crate) fn open_path(mapping: &Mapping, pid: u32) -> Option<PathBuf> {
    let through_root = PathBuf::from(format!("/proc/{pid}/root{}", mapping.path));
    if !mapping.deleted && fs::metadata(&through_root).is_ok_and(|metadata| metadata.ino() == mapping.inode) {
        return Some(through_root);
    }
    let by_mapping = mapping.map_file(pid);
    if fs::File::open(&by_mapping).is_ok() {
        return Some(by_mapping);
    }
    (!mapping.deleted).then_some(through_root)
}
