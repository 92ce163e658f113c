//! Another process's memory, as far as it is there: reading a page that has to be fetched first may take for ever.

use crate::maps::Mapping;
use crate::trust::{Identity, Reading};
use rustix::fs::major;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Pages of one read that are asked for at once.
const MAX_ENTRIES: usize = 32;
/// In memory, or in swap (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63 | 1 << 62;

/// A process's memory through `/proc`: the process is not stopped, so what is read may change meanwhile.
#[derive(Debug)]
pub struct ProcessMemory {
    process: Identity,
    memory: File,
    pages: File,
    /// Memory of files on disks: what is not there yet is fetched.
    on_disk: Vec<Range<u64>>,
}

impl ProcessMemory {
    pub fn open(pid: u32) -> io::Result<ProcessMemory> {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}"));
        let (memory, pages) = (open("mem")?, open("pagemap")?);
        Ok(ProcessMemory { process: Identity::of(pid), memory, pages, on_disk: Vec::new() })
    }

    /// The same, which may also fetch what is there.
    #[must_use]
    pub fn fetching(self, on_disk: Vec<Range<u64>>) -> ProcessMemory {
        ProcessMemory { on_disk, ..self }
    }

    /// Fills all of `into`, or says false. Who replaces a page just between the look and the read can still delay it: the
    /// caller is to be one that somebody waits for with a limit.
    pub fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(into.len() as u64) else { return false };
        let Some(_reading) = Reading::of(&self.process) else { return false };
        let is_on_disk = || self.on_disk.iter().any(|range| range.start <= address && end <= range.end);
        (self.is_there(address..end) || is_on_disk()) && self.memory.read_exact_at(into, address).is_ok()
    }

    fn is_there(&self, wanted: Range<u64>) -> bool {
        let size = rustix::param::page_size() as u64;
        let (mut page, end) = (wanted.start / size, wanted.end.div_ceil(size));
        let mut entries = [0u8; 8 * MAX_ENTRIES];
        while page < end {
            let bytes = 8 * MAX_ENTRIES.min((end - page) as usize);
            let Some(part) = entries.get_mut(..bytes) else { return false };
            let Some(at) = page.checked_mul(8) else { return false };
            if self.pages.read_exact_at(part, at).is_err() {
                return false;
            }
            let entries = part.chunks_exact(8).map(|entry| entry.try_into().map_or(0, u64::from_ne_bytes));
            if entries.into_iter().any(|entry| entry & PRESENT == 0) {
                return false;
            }
            page += MAX_ENTRIES as u64;
        }
        true
    }
}

impl Mapping {
    /// Its address, if it is of a file on a disk of this host. File systems without one have their servers anywhere.
    pub fn on_disk(&self) -> Option<Range<u64>> {
        (self.is_file() && major(self.file.device) != 0).then_some(self.start..self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_what_has_to_be_fetched_is_not() {
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let text = vec![7u8; 300_000];
        let mut read = vec![0; text.len()];
        assert!(memory.read(text.as_ptr() as u64, &mut read) && read == text);
        assert!(!memory.read(8, &mut [0; 8]) && !memory.read(u64::MAX - 3, &mut [0; 8]));
        let fresh: Vec<u8> = Vec::with_capacity(64 << 20);
        let (at, size) = (fresh.as_ptr() as u64 + (1 << 20), 32 << 20);
        assert!(!memory.read(at, &mut [0; 8]), "nobody has touched it");
        let all = std::iter::once(at..at + size).collect();
        let fetching = ProcessMemory::open(std::process::id()).unwrap().fetching(all);
        assert!(!fetching.read(at + size - 4, &mut [0; 8]) && fetching.read(at, &mut [0; 8]));
    }
}
