//! `/tmp/perf-PID.map`: names that a just-in-time compiler writes for the code it makes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use gpuwhy_proc::Inside;

use crate::demangle::cut;
use crate::opener::Opener;

const MAX_BYTES: u64 = 64 << 20;
const MAX_FUNCTIONS: usize = 1 << 20;
const CHUNK: u64 = 1 << 20;

#[derive(Default)]
pub(crate) struct PerfMap {
    file: Option<Arc<File>>,
    read: u64,
    /// The beginning of a line whose end was not there yet.
    rest: Vec<u8>,
    /// By start: end and name.
    functions: BTreeMap<u64, (u64, Box<str>)>,
}

impl PerfMap {
    /// Reads what is new. The file stays open, so what the process wrote last is read though it has ended.
    pub(crate) fn read(&mut self, pid: u32, file: Option<File>, opener: &mut Opener) {
        if self.file.is_none() {
            self.file = file.map(Arc::new);
        }
        self.read_on(|| opener.perf_map(pid).map(Arc::new));
    }

    /// Reads what is new in a file that another has opened.
    pub(crate) fn read_of(&mut self, file: Arc<File>) {
        self.file = Some(Arc::clone(&file));
        self.read_on(|| Some(file));
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn file(&self) -> Option<Arc<File>> {
        self.file.clone()
    }

    /// A file that has become shorter is another one, to be opened again.
    fn read_on(&mut self, again: impl FnOnce() -> Option<Arc<File>>) {
        let Some(size) =
            self.file.as_ref().and_then(|file| file.metadata().ok()).map(|metadata| metadata.len())
        else {
            return;
        };
        if size < self.read {
            *self = PerfMap { file: again(), ..PerfMap::default() };
        }
        while self.read < size.min(MAX_BYTES) && self.functions.len() < MAX_FUNCTIONS {
            let mut chunk = vec![0; CHUNK.min(size.min(MAX_BYTES) - self.read) as usize];
            let count =
                self.file.as_ref().and_then(|file| file.read_at(&mut chunk, self.read).ok()).unwrap_or(0);
            if count == 0 {
                break;
            }
            self.read += count as u64;
            self.take(&chunk[..count]);
        }
    }

    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    pub(crate) fn take(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        let text = std::mem::take(&mut self.rest);
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in text[..end].split(|byte| *byte == b'\n') {
            let Some((start, end, name)) = parse(line) else { continue };
            // Code that is gone: its memory is used again.
            let gone: Vec<u64> =
                self.functions.range(start..end).map(|(start, _)| *start).take(1024).collect();
            for start in gone {
                self.functions.remove(&start);
            }
            self.functions.insert(start, (end, name.into()));
        }
        // No name is that long: the line is garbage.
        if text.len() - end <= CHUNK as usize {
            self.rest = text[end..].to_vec();
        }
    }
}

/// The file of a process. Only what the process's own user wrote: the folder is everybody's.
pub(crate) fn open(pid: u32) -> Option<File> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::split_whitespace);
    let inner_pid = field("NSpid:").and_then(Iterator::last).map_or(pid.to_string(), str::to_string);
    let file = Inside::of_process(pid)?.open(&format!("/tmp/perf-{inner_pid}.map"))?;
    let owner = file.metadata().ok()?.uid();
    let is_users = field("Uid:")?.take(2).any(|uid| uid.parse() == Ok(owner));
    is_users.then_some(file)
}

/// `7f001000 2a4 py::train:/job/train.py`
fn parse(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(&line[..line.len().min(16_384)]);
    let mut words = line.splitn(3, ' ');
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let start = number(words.next()?)?;
    let end = start.checked_add(number(words.next()?)?)?;
    let name = words.next()?.trim();
    (start < end && !name.is_empty()).then(|| (start, end, cut(name).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_pieces_and_replace_each_other() {
        let mut map = PerfMap::default();
        map.take(b"1000 100 first\n1100 80 sec");
        assert_eq!((map.at(0x1000), map.at(0x10ff), map.at(0x1100)), (Some("first"), Some("first"), None));
        map.take(b"ond one\nzz\n\xff\n2000\n3000 0 nothing\nffffffffffffffff 2 over\n1080 20 third\n");
        assert_eq!(map.at(0x1100), Some("second one"));
        assert_eq!((map.at(0x1080), map.at(0x10a0)), (Some("third"), None));
        map.take(&vec![b'x'; 3 << 20]);
        map.take(b"\n4000 10 after\n");
        assert_eq!(map.at(0x4000), Some("after"));
        assert!(map.rest.is_empty());
    }
}
