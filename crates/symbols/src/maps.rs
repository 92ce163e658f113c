//! `/proc/PID/maps`: what of a process's memory is executable.

use std::fs::File;
use std::io::Read;

/// More than the kernel's default limit of mappings needs with paths of ordinary length.
const MOST_BYTES: u64 = 32 << 20;
const MOST_MAPPINGS: usize = 16_384;

/// One executable line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapsLine {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    /// As the process sees it; empty for memory without a file.
    pub(crate) path: String,
}

/// The text of the file; nothing if the process is gone.
pub(crate) fn read(pid: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/maps")).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

/// The executable mappings, by address.
pub(crate) fn executable(text: &[u8]) -> Vec<MapsLine> {
    let mut lines: Vec<MapsLine> =
        text.split(|byte| *byte == b'\n').filter_map(parse).take(MOST_MAPPINGS).collect();
    lines.sort_by_key(|line| line.start);
    lines
}

/// `7f00-7f01 r-xp 00000000 fe:00 1234    /usr/lib/libcuda.so.1`
fn parse(line: &[u8]) -> Option<MapsLine> {
    let (range, rest) = word(line)?;
    let (permissions, rest) = word(rest)?;
    if permissions.get(2) != Some(&b'x') {
        return None;
    }
    let (offset, rest) = word(rest)?;
    let (_device, rest) = word(rest)?;
    let (inode, rest) = word(rest).unwrap_or((rest, b""));
    let path = String::from_utf8_lossy(rest.trim_ascii_start());
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    // The kernel's own page (vsyscall) is nobody's code.
    (start < end && path != "[vsyscall]").then_some(())?;
    Some(MapsLine {
        start,
        end,
        offset: u64::from_str_radix(std::str::from_utf8(offset).ok()?, 16).ok()?,
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        path: path.strip_suffix(" (deleted)").unwrap_or(&path).to_string(),
    })
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_garbage_is_not() {
        let lines = executable(
            b"7f20-7f30 r-xp 00001000 fe:00 1234      /a b/libcuda.so.1 (deleted)\n\
              7f10-7f20 r-xp 00000000 00:00 0 \n\
              7f30-7f40 rw-p 00000000 00:00 0     [heap]\n\
              7f30-7f20 r-xp 00000000 00:00 0\n\
              zzzz r-xp\n\xff\xfe\n-\nffffffffffffffffff-1 r-xp 0 0 0\n",
        );
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].start, lines[0].path.as_str()), (0x7f10, ""));
        assert_eq!(
            (lines[1].offset, lines[1].inode, lines[1].path.as_str()),
            (0x1000, 1234, "/a b/libcuda.so.1")
        );
    }
}
