//! `/proc/PID/maps`: what a process has mapped.

use crate::{FileId, look};
use rustix::fs::makedev;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// More than the kernel's default limit of mappings needs with paths of ordinary length.
const MAX_BYTES: u64 = 32 << 20;

/// What a process had mapped when it was looked at; a process that has ended has nothing.
#[derive(Debug)]
pub struct Maps {
    text: Vec<u8>,
}

impl Maps {
    /// It takes the lock of the process's memory, which the process can hold for as long as it likes.
    pub fn of(pid: u32) -> io::Result<Maps> {
        look(pid, move || Maps::read(&format!("/proc/{pid}/maps")))
            .unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    pub fn ours() -> io::Result<Maps> {
        Maps::read("/proc/self/maps")
    }

    fn read(path: &str) -> io::Result<Maps> {
        let mut text = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(Maps { text })
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// By address, as the kernel lists them.
    pub fn iter(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.text.split(|byte| *byte == b'\n').filter_map(Mapping::parse)
    }
}

impl From<&[u8]> for Maps {
    fn from(text: &[u8]) -> Maps {
        Maps { text: text.into() }
    }
}

/// One line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub executable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    pub file: FileId,
    /// As the process sees it; a word in brackets, or empty, for memory without a file.
    pub path: String,
    /// The file has lost its name since.
    pub deleted: bool,
}

impl Mapping {
    /// `7f00-7f01 r-xp 00000000 fe:00 1234    /usr/lib/libcuda.so.1 (deleted)`
    fn parse(line: &[u8]) -> Option<Mapping> {
        // Paths are bytes: one strange name must not hide the others.
        let line = String::from_utf8_lossy(line);
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let offset = fields.next()?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let inode = fields.next()?;
        let path = fields.next().unwrap_or_default().trim_start();
        let nameless = path.strip_suffix(" (deleted)");
        let mapping = Mapping {
            start: hex(start)?,
            end: hex(end)?,
            executable: permissions.as_bytes().get(2) == Some(&b'x'),
            offset: hex(offset)?,
            file: FileId {
                device: makedev(hex(major)? as u32, hex(minor)? as u32),
                inode: inode.parse().ok()?,
            },
            path: nameless.unwrap_or(path).to_string(),
            deleted: nameless.is_some(),
        };
        (mapping.start < mapping.end).then_some(mapping)
    }

    /// Whether it is of a file that has, or had, a path.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/')
    }

    /// The last word of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Where the file can be opened whatever became of its path, by those who may.
    pub(crate) fn map_file(&self, pid: u32) -> PathBuf {
        // The names have no leading zeros, as the map has for addresses below 256 MiB.
        format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end).into()
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Vec<Mapping> {
        Maps::from(text).iter().collect()
    }

    #[test]
    fn lines_are_read_and_garbage_is_not() {
        let mappings = parse(
            b"00400000-00452000 r--p 00001000 fe:00 1234      /a b/libcuda.so.1 (deleted)\n\
              7f10-7f20 r-xp 00000000 00:00 0 \n\
              7f20-7f30 rw-p 00000000 00:00 0                         [heap]\n\
              7f30-7f40 rw-p 00000000 00:00 0\n\
              7f40-7f50 rw-p 00000000 00:00 7  /odd\xff\n\
              7f30-7f20 r-xp 00000000 00:00 0\n\
              zzzz r-xp\n\xff\xfe\n-\nffffffffffffffffff-1 r-xp 0 0 0\n\n",
        );
        let paths: Vec<&str> = mappings.iter().map(|mapping| mapping.path.as_str()).collect();
        assert_eq!(paths, ["/a b/libcuda.so.1", "", "[heap]", "", "/odd\u{fffd}"]);
        let first = Mapping {
            start: 0x40_0000,
            end: 0x45_2000,
            executable: false,
            offset: 0x1000,
            file: FileId { device: makedev(0xfe, 0), inode: 1234 },
            path: "/a b/libcuda.so.1".into(),
            deleted: true,
        };
        assert_eq!((&mappings[0], first.name()), (&first, "libcuda.so.1"));
        assert!(mappings[1].executable && !mappings[1].deleted);
        let files: Vec<bool> = mappings.iter().map(Mapping::is_file).collect();
        assert_eq!(files, [true, false, false, false, true]);
    }

    #[test]
    fn low_addresses_have_the_names_that_the_kernel_gives_them() {
        let mapping = parse(b"00400000-00452000 r-xp 00000000 fe:00 1234 /bin/fixed").remove(0);
        assert_eq!(mapping.map_file(7), PathBuf::from("/proc/7/map_files/400000-452000"));
    }

    #[test]
    fn this_test_is_mapped() {
        let here = this_test_is_mapped as *const () as u64;
        let maps = Maps::ours().unwrap();
        let code = maps.iter().find(|mapping| mapping.contains(here)).unwrap();
        assert!(code.executable && code.is_file() && !maps.is_empty());
        assert!(Maps::of(std::process::id()).unwrap().iter().any(|mapping| mapping == code));
    }
}
