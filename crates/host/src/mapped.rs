//! Library files that processes map.

use gpuwhy_proc::{FileId, MappedFile, Mapping, Maps, TargetFile};
use std::collections::HashSet;
use std::fs;

/// Every process there is.
pub fn pids() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The executable files of these processes whose names `wanted` accepts. Each file once, however many processes map it:
/// a file is open as long as it is in the list.
pub fn mapped_files(pids: impl IntoIterator<Item = u32>, wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    let mut seen: HashSet<FileId> = HashSet::new();
    pids.into_iter()
        .flat_map(|pid| MappedFile::of_process(pid, &wanted))
        .filter(|mapped| seen.insert(mapped.file.id()))
        .collect()
}

/// The inode numbers of the executable files that processes map now under names that `wanted` accepts.
pub fn mapped_inodes(wanted: impl Fn(&str) -> bool) -> HashSet<u64> {
    let maps = pids().into_iter().filter_map(|pid| Maps::of(pid).ok());
    let of_maps = |maps: Maps| {
        let inodes = maps.iter().filter(|mapping| mapping.executable && wanted(mapping.name()));
        inodes.map(|mapping| mapping.file.inode).collect::<Vec<_>>()
    };
    maps.flat_map(of_maps).collect()
}

/// The file that a process just mapped, if it still has it. The list of its mappings, whose reader holds up the process,
/// is read only where the mapping has changed since.
pub fn mapped_file(pid: u32, mapping: &Mapping) -> Option<MappedFile> {
    let as_listed = || {
        let maps = Maps::of(pid).ok()?;
        let listed = maps.iter().find(|listed| listed.executable && listed.file == mapping.file)?;
        TargetFile::mapped(pid, &listed)
    };
    let file = TargetFile::mapped(pid, mapping).or_else(as_listed)?;
    Some(MappedFile { pid, path: mapping.path.clone(), file })
}
