//! What a process has mapped from files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// One mapping of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file_offset: u64,
    pub(crate) inode: u64,
    /// As the process sees it.
    pub(crate) path: String,
    deleted: bool,
}

impl Mapping {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Where the file can be opened from here: in the process's own root, or, where it was deleted or replaced since,
    /// by the mapping itself. An overlay's files may have another inode in the map than to `stat`, so where mappings
    /// may not be opened the path is believed.
    pub(crate) fn open_path(&self, pid: u32) -> Option<PathBuf> {
        let through_root = PathBuf::from(format!("/proc/{pid}/root{}", self.path));
        if !self.deleted && fs::metadata(&through_root).is_ok_and(|metadata| metadata.ino() == self.inode) {
            return Some(through_root);
        }
        // Without the leading zeros that the map has.
        let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end));
        if fs::File::open(&by_mapping).is_ok() {
            return Some(by_mapping);
        }
        (!self.deleted).then_some(through_root)
    }
}

/// All file mappings of a process.
pub(crate) fn mappings(pid: u32) -> std::io::Result<Vec<Mapping>> {
    // Paths are bytes: one strange name must not hide the others.
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&maps).lines().filter_map(parse_line).collect())
}

/// `7f00-7f01 r-xp 00000000 fe:00 1234    /usr/bin/python3.12 (deleted)`
fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let file_offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    let path = fields.next()?.trim_start();
    let left = path.strip_suffix(" (deleted)");
    let (deleted, path) = (left.is_some(), left.unwrap_or(path));
    path.starts_with('/').then_some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        file_offset,
        inode,
        path: path.to_string(),
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let mapping =
            parse_line("7f1c-7f2c r-xp 00001000 fe:00 1234        /a b/python3.12 (deleted)").unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.file_offset), (0x7f1c, 0x7f2c, 0x1000));
        assert_eq!(
            (mapping.inode, mapping.path.as_str(), mapping.name()),
            (1234, "/a b/python3.12", "python3.12")
        );
        assert!(parse_line("7f1c-7f2c rw-p 00000000 00:00 0    [heap]").is_none());
        assert!(parse_line("").is_none());
    }
}
