//! Library files that processes map, each reachable from here whatever container or deleted wheel it came from.

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
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut found: Vec<MappedFile> = Vec::new();
    for line in maps.lines() {
        let Some(mapping) = parse_line(line) else { continue };
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        if !mapping.executable || !wanted(name) || found.iter().any(|file| file.inode == mapping.inode) {
            continue;
        }
        found.extend(open_mapped(pid, mapping.path, mapping.inode, Some(mapping.range)));
    }
    found
}

/// A way to open a mapped file: by its path within the process's own root, else by the mapping itself.
pub fn open_mapped(pid: u32, path: &str, inode: u64, range: Option<&str>) -> Option<MappedFile> {
    let through_root = PathBuf::from(format!("/proc/{pid}/root{path}"));
    let by_mapping = range.map(|range| PathBuf::from(format!("/proc/{pid}/map_files/{range}")));
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

/// Executable memory of a process and the file it comes from; empty for code made at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRange {
    pub start: u64,
    pub end: u64,
    pub path: String,
}

/// All executable memory of a process; none if it is gone.
pub fn code_ranges(pid: u32) -> Vec<CodeRange> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(6, ' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
            executable.then_some(CodeRange {
                start: u64::from_str_radix(start, 16).ok()?,
                end: u64::from_str_radix(end, 16).ok()?,
                path: fields.nth(3).unwrap_or_default().trim_start().to_string(),
            })
        })
        .collect()
}

struct Mapping<'a> {
    range: &'a str,
    executable: bool,
    inode: u64,
    path: &'a str,
}

/// `7f00-7f01 r-xp 00000000 fe:00 1234    /usr/lib/libcuda.so.1`
fn parse_line(line: &str) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, ' ');
    let range = fields.next()?;
    let permissions = fields.next()?;
    let inode = fields.nth(2)?.parse().ok()?;
    let path = fields.next()?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.starts_with('/').then_some(Mapping {
        range,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        inode,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_are_read() {
        let mapping = parse_line(
            "7f1c-7f2c r-xp 00001000 fe:00 1234                       /a b/libcuda.so.1 (deleted)",
        )
        .unwrap();
        assert!(mapping.executable);
        assert_eq!((mapping.inode, mapping.path), (1234, "/a b/libcuda.so.1"));
        assert!(parse_line("7f1c-7f2c rw-p 00000000 00:00 0    [heap]").is_none());
        assert!(parse_line("7f1c-7f2c rw-p 00000000 00:00 0 ").is_none());
        assert!(parse_line("").is_none());
    }

    #[test]
    fn this_process_maps_its_libc() {
        let files = mapped_files_of(std::process::id(), |name| name.starts_with("libc.so"));
        assert!(files.iter().all(|file| file.open_path.exists()));
    }
}
