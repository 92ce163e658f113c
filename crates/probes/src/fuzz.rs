//! Entry points for the fuzzers in `fuzz/`: what is read of bytes that the kernel or a traced process wrote. Nothing else calls them.

use crate::load::{Inbox, Sites};
use crate::raw::{cuda, read};
use crate::{call, inflight, mappings, sched, stream};
use gpuwhy_elf::Table;
use gpuwhy_proc::TargetFile;
use std::mem::offset_of;
use std::path::Path;

/// Reads records as they come out of a ring; returns how many were understood. Process ids are cleared: the rest of a long name
/// is read from the memory of its process, and there must be none.
pub fn records<'a>(records: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut inbox = Inbox::default();
    let tgid = offset_of!(cuda::record, tgid);
    for record in records {
        let mut record = record.to_vec();
        if let Some(tgid) = record.get_mut(tgid..tgid + 4) {
            tgid.fill(0);
        }
        inbox.take_record(&record);
    }
    let (records, undecodable) = inbox.counts();
    records - undecodable
}

/// Reads bytes as the values of every map, and as the records of every iterator and of perf.
pub fn values(bytes: &[u8], number: u64) {
    let (key, value) = bytes.split_at(bytes.len().min(size_of::<cuda::window_key>()));
    if let Some(key) = read::<cuda::window_key>(key) {
        call::decode_window(&key, value, number);
    }
    sched::decode_wait(bytes, bytes, number);
    stream::decode_stream(0, bytes, number, number);
    stream::decode_function(bytes, number);
    inflight::decode_place(bytes);
    inflight::decode_registers(bytes);
    inflight::decode_between(bytes, number);
    let functions: Vec<_> = crate::probe::functions(crate::PROBES).collect();
    inflight::decode(bytes, number, |rule| functions.get(usize::from(rule)).copied());
    mappings::parse_mmap2(bytes);
}

/// Looks for every probed function in a library file; returns how many were found.
pub fn sites(path: &Path) -> usize {
    let wanted: Vec<&str> = crate::probe::functions(crate::PROBES).map(|function| function.symbol).collect();
    let Some(file) = TargetFile::at(path) else { return 0 };
    let sites = Sites::of_symbols(&file, &[Table::Dynamic, Table::Full], &wanted).unwrap_or_default();
    usize::from(sites.fit(&file)) * sites.entries.len()
}
