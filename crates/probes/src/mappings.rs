//! Tells at once when any process maps a GPU library: the kernel's own mmap records, through perf's software events.
//! No program runs for it and no system call is slowed down.

use gpuwhy_proc::{FileId, Mapping};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// An executable mapping a process just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    pub pid: u32,
    pub mapping: Mapping,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// One small ring for each CPU.
#[derive(Debug)]
pub struct MappingWatch {
    rings: Vec<PerfRing>,
}

const DATA_PAGES: usize = 16;
/// What the kernel adds to the path of a file that has none any more.
const DELETED: &str = " (deleted)";
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_MMAP2: u32 = 10;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// Bits of perf_event_attr's flag word.
const ATTR_MMAP: u64 = 1 << 8;
const ATTR_WATERMARK: u64 = 1 << 14;
const ATTR_SAMPLE_ID_ALL: u64 = 1 << 18;
const ATTR_MMAP2: u64 = 1 << 23;
const ATTR_USE_CLOCKID: u64 = 1 << 25;
const PERF_SAMPLE_TIME: u64 = 1 << 2;

impl MappingWatch {
    pub fn open() -> io::Result<Self> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
        let rings = parse_cpus(&online).into_iter().map(PerfRing::open).collect::<io::Result<Vec<_>>>()?;
        Ok(MappingWatch { rings })
    }

    /// Waits for a mapping, for one of `others` to become readable, or for the timeout; then all executable file mappings
    /// since the last time, and whether all of them are there: a storm of new processes may outrun the rings.
    pub fn wait(&self, others: &[i32], timeout: std::time::Duration) -> (Vec<Mapped>, bool) {
        let mut fds: Vec<libc::pollfd> = self
            .rings
            .iter()
            .map(|ring| ring.fd.as_raw_fd())
            .chain(others.iter().copied())
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY: the array outlives the call and its length is right.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout.as_millis() as i32) };
        let mut found = Vec::new();
        let mut complete = true;
        for ring in &self.rings {
            complete &= ring.read(&mut found);
        }
        (found, complete)
    }
}

/// `0-3,8` as numbers.
fn parse_cpus(text: &str) -> Vec<i32> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.parse::<i32>().ok()?..=to.parse::<i32>().ok()?)
        })
        .flatten()
        .collect()
}

#[derive(Debug)]
struct PerfRing {
    fd: OwnedFd,
    /// The control page, followed by the data pages.
    base: *mut u8,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone; it may be read from any one thread.
unsafe impl Send for PerfRing {}

impl PerfRing {
    fn open(cpu: i32) -> io::Result<Self> {
        // struct perf_event_attr up to its clockid, the upper half of the last word.
        let mut attr = [0u64; 12];
        attr[0] = u64::from(PERF_TYPE_SOFTWARE) | ((size_of_val(&attr) as u64) << 32);
        attr[1] = PERF_COUNT_SW_DUMMY;
        attr[3] = PERF_SAMPLE_TIME;
        attr[5] = ATTR_MMAP | ATTR_MMAP2 | ATTR_WATERMARK | ATTR_SAMPLE_ID_ALL | ATTR_USE_CLOCKID;
        attr[6] = 1; // wake up at the first byte
        attr[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        // SAFETY: the kernel reads `size` bytes of attr; a new descriptor is ours.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // SAFETY: no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a fresh shared mapping of the event's own buffer.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page * (1 + DATA_PAGES),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(PerfRing { fd, base: base.cast(), page })
    }

    /// data_head and data_tail of struct perf_event_mmap_page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the control page, aligned, and shared with the kernel, which accesses it atomically.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }

    /// Takes what there is; false where the kernel says that it had to drop some.
    fn read(&self, found: &mut Vec<Mapped>) -> bool {
        let mut complete = true;
        const HEAD: usize = 1024;
        const TAIL: usize = 1032;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let header = self.copy(tail, 8);
            let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
            if size < 8 {
                break;
            }
            let record = self.copy(tail, size);
            match u32::from_le_bytes([record[0], record[1], record[2], record[3]]) {
                PERF_RECORD_MMAP2 => found.extend(parse_mmap2(&record)),
                PERF_RECORD_LOST => complete = false,
                _ => {}
            }
            tail += size as u64;
        }
        self.position(TAIL).store(head, Ordering::Release);
        complete
    }

    /// Bytes of the ring, around its end where need be.
    fn copy(&self, from: u64, len: usize) -> Vec<u8> {
        let size = self.page * DATA_PAGES;
        (0..len)
            .map(|i| {
                let at = (from as usize + i) % size;
                // SAFETY: within the data pages; the kernel has published these bytes (head was acquired).
                unsafe { self.base.add(self.page + at).read() }
            })
            .collect()
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, unmapped once.
        unsafe { libc::munmap(self.base.cast(), self.page * (1 + DATA_PAGES)) };
    }
}

/// header 8, pid, tid, addr 8, len 8, pgoff 8, maj, min, ino 8, ino_generation 8, prot, flags, filename, time 8.
pub(crate) fn parse_mmap2(record: &[u8]) -> Option<Mapped> {
    let word = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let start = long(16)?;
    let (name, time) = record.get(72..)?.split_last_chunk::<8>()?;
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
    let path = String::from_utf8_lossy(name);
    Some(Mapped {
        pid: word(8)?,
        mapping: Mapping {
            start,
            end: start.checked_add(long(24)?)?,
            // Only executable ones have records.
            executable: true,
            offset: long(32)?,
            file: FileId { device: libc::makedev(word(40)?, word(44)?), inode: long(48)? },
            path: path.strip_suffix(DELETED).unwrap_or(&path).to_string(),
            deleted: path.ends_with(DELETED),
        },
        time_ns: u64::from_le_bytes(*time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(parse_cpus("0-3,8\n"), vec![0, 1, 2, 3, 8]);
        assert_eq!(parse_cpus("0"), vec![0]);
    }

    #[test]
    fn a_golden_mmap2_record_decodes() {
        let mut record = vec![0u8; 72];
        record[0] = 10;
        record[8] = 42;
        record[16..24].copy_from_slice(&0x7f00_0000u64.to_le_bytes());
        record[24..32].copy_from_slice(&0x1000u64.to_le_bytes());
        record[40..44].copy_from_slice(&8u32.to_le_bytes());
        record[44..48].copy_from_slice(&1u32.to_le_bytes());
        record[48..56].copy_from_slice(&77u64.to_le_bytes());
        record.extend_from_slice(b"/usr/lib/libcuda.so.1\0\0\0");
        record.extend_from_slice(&99u64.to_le_bytes());
        let mapped = parse_mmap2(&record).unwrap();
        assert_eq!(
            (mapped.pid, mapped.mapping.file.inode, mapped.mapping.path.as_str()),
            (42, 77, "/usr/lib/libcuda.so.1")
        );
        assert_eq!(mapped.mapping.file.device, libc::makedev(8, 1));
        assert_eq!((mapped.mapping.start, mapped.mapping.end), (0x7f00_0000, 0x7f00_1000));
        assert_eq!(mapped.time_ns, 99);
        assert!(parse_mmap2(&record[..50]).is_none());
    }
}
