//! Where the probes of a library file's functions go: read off its symbol tables, or known from an earlier read and
//! compared with the file's own bytes.

use super::site;
use crate::probe::{Library, functions};
use crate::{PROBES, probe};
use gpuwhy_elf::{Bytes, Layout, Table, find_symbols};
use gpuwhy_proc::TargetFile;

/// How much of a function is decoded to find the probe's site.
const CODE_BYTES: u64 = 32;

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub symbol: String,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its first bytes: what the site of its probe was chosen by.
    pub code: Vec<u8>,
    /// Bytes behind its beginning at which it is probed.
    pub site: u64,
    /// The kernel executes the instruction there without single-stepping.
    pub emulated: bool,
}

impl Entry {
    fn new(symbol: String, offset: u64, code: Vec<u8>) -> Entry {
        let site = site::choose(&code);
        Entry { symbol, offset, code, site: site.offset as u64, emulated: site.emulated }
    }

    /// Whether that is what the file has there, and where a probe of it goes.
    fn fits(&self, file: &impl Bytes) -> bool {
        let length = self.code.len() as u64;
        let is_there = || file.bytes(self.offset, length).is_some_and(|code| code == self.code);
        length > 0
            && length <= CODE_BYTES
            && is_there()
            && *self == Entry::new(self.symbol.clone(), self.offset, self.code.clone())
    }
}

/// The probed functions that a library file has. Reading a file's tables takes up to a tenth of a second, so this is
/// read once for each build of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sites {
    pub entries: Vec<Entry>,
}

impl Sites {
    /// From the file's symbol tables, which are a stranger's: to be called in a confined thread.
    pub fn read(file: &TargetFile, library: Library) -> Result<Sites, String> {
        let of_library = functions(PROBES).filter(|function| function.library == library);
        let wanted: Vec<&str> = of_library.map(|function| function.symbol).collect();
        Sites::of_symbols(file, tables_of(library), &wanted)
    }

    pub(crate) fn of_symbols(file: &TargetFile, tables: &[Table], wanted: &[&str]) -> Result<Sites, String> {
        let file = file.file();
        let layout = Layout::read(file).ok_or("it is no ELF file of this machine")?;
        let search = find_symbols(file, &layout, tables, wanted);
        if search.is_too_large && search.symbols.is_empty() {
            return Err("its symbol table is larger than that of any real library".into());
        }
        let entry = |symbol: String, address: u64| {
            let offset = layout.offset_of(address)?;
            Some(Entry::new(symbol, offset, file.bytes(offset, CODE_BYTES).unwrap_or_default()))
        };
        let entries = search.symbols.into_iter().filter_map(|(name, found)| entry(name, found.address));
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_by(|a, b| a.symbol.cmp(&b.symbol));
        Ok(Sites { entries })
    }

    /// Whether the file has these very bytes where the functions are said to begin, and their probes go where these bytes
    /// say: an entry that is wrong can at most name another function that begins alike. For a confined thread, too.
    pub fn fit(&self, file: &TargetFile) -> bool {
        self.entries.iter().all(|entry| entry.fits(file.file()))
    }

    /// The offset in the file at which a function is probed, and whether the kernel emulates the instruction there.
    pub(crate) fn site(&self, symbol: &str) -> Option<(usize, bool)> {
        let entry = self.entries.iter().find(|entry| entry.symbol == symbol)?;
        Some((entry.offset.checked_add(entry.site)? as usize, entry.emulated))
    }
}

/// What names a build of a library: nothing where its linker wrote no build id. For a confined thread, too.
pub fn build_id(file: &TargetFile) -> Option<Vec<u8>> {
    Layout::read(file.file())?.build_id
}

/// What is linked into a larger library may be in its full table only.
fn tables_of(library: Library) -> &'static [Table] {
    match library {
        Library::Nccl => &[Table::Dynamic, Table::Full],
        _ => &[Table::Dynamic],
    }
}

/// Whether a file of that name may rightly have none of the functions.
pub(crate) fn may_be_without(file_name: &str) -> bool {
    probe::may_contain_nccl(file_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    /// This test's own program, which has functions and is an ELF file.
    fn own_copy() -> (tempfile::NamedTempFile, TargetFile) {
        let mut copy = tempfile::NamedTempFile::new().unwrap();
        std::io::copy(&mut std::fs::File::open("/proc/self/exe").unwrap(), &mut copy).unwrap();
        let file = TargetFile::at(copy.path()).unwrap();
        (copy, file)
    }

    #[test]
    fn sites_fit_the_file_they_were_read_off_and_no_other_bytes() {
        let (copy, file) = own_copy();
        let sites = Sites::of_symbols(&file, &[Table::Full], &["main"]).unwrap();
        assert_eq!(sites.entries.len(), 1);
        assert!(sites.fit(&file) && sites.site("main").is_some() && sites.site("other").is_none());
        let offset = sites.entries[0].offset;
        let elsewhere = |offset| Sites { entries: vec![Entry { offset, ..sites.entries[0].clone() }] };
        assert!(!elsewhere(offset + 1).fit(&file), "another place");
        assert!(!elsewhere(u64::MAX).fit(&file), "no place at all");
        let beside = Sites { entries: vec![Entry { site: 9, ..sites.entries[0].clone() }] };
        assert!(!beside.fit(&file), "the probe would go elsewhere");
        let nothing = Sites { entries: vec![Entry { code: Vec::new(), ..sites.entries[0].clone() }] };
        assert!(!nothing.fit(&file), "no bytes to compare");
        let mut changed = copy.reopen().unwrap();
        changed.seek(SeekFrom::Start(offset)).unwrap();
        changed.write_all(&[0xcc]).unwrap();
        assert!(!sites.fit(&file), "another instruction");
    }
}
