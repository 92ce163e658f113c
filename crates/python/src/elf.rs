//! What an ELF file tells of the Python in it.

use crate::Version;
use gpuwhy_proc::Mapping;
use memchr::memmem;
use object::elf::{SHN_UNDEF, Sym64};
use object::read::elf::{ElfFile64, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// Constants are searched for the version no further than this.
const MOST_CONSTANT_BYTES: u64 = 64 << 20;

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// An interpreter's file. Addresses are the file's own.
#[derive(Debug)]
pub(crate) struct PythonFile {
    pub(crate) runtime: Option<u64>,
    /// The file's own word for it; its name may say more.
    pub(crate) version: Option<Version>,
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    address: u64,
    file_offset: u64,
    file_bytes: u64,
}

impl PythonFile {
    /// `named`: what the file's name says of the version, where it does.
    pub(crate) fn read(path: &Path, named: Option<Version>) -> Result<Self, String> {
        let cache = ReadCache::new(File::open(path).map_err(|why| why.to_string())?);
        let elf = Elf::parse(&cache).map_err(|why| why.to_string())?;
        let runtime = symbol(&elf, "_PyRuntime")
            // 3.10 and newer have it in a section of its own, which `strip` leaves.
            .or_else(|| elf.section_by_name(".PyRuntime").map(|section| section.address()))
            .filter(|address| *address != 0);
        let version = runtime.and_then(|_| version(&elf, named));
        Ok(Self { runtime, version, segments: segments(&elf) })
    }

    /// How far from its own addresses the file was loaded; `mappings` are of this file, lowest first.
    pub(crate) fn bias(&self, mappings: &[&Mapping]) -> Option<u64> {
        mappings.iter().find_map(|mapping| {
            let segment = self.segments.iter().find(|segment| {
                // The kernel maps whole pages.
                let first = segment.file_offset & !0xfff;
                (first..segment.file_offset.saturating_add(segment.file_bytes)).contains(&mapping.offset)
            })?;
            let at_zero = mapping.start.wrapping_sub(mapping.offset);
            Some(at_zero.wrapping_add(segment.file_offset).wrapping_sub(segment.address))
        })
    }
}

/// Found by the place of its name among all names, which is many times faster than to ask each symbol for its own: the
/// process may end soon.
fn symbol(elf: &Elf<'_>, name: &str) -> Option<u64> {
    let endian = elf.endian();
    let text = format!("{name}\0");
    let tables = [(elf.elf_dynamic_symbol_table(), ".dynstr"), (elf.elf_symbol_table(), ".strtab")];
    tables.into_iter().find_map(|(table, strings)| {
        let strings = elf.section_by_name(strings)?.data().ok()?;
        // The linker may have made it the end of another name.
        let names: Vec<usize> = memmem::find_iter(strings, text.as_bytes()).collect();
        let is_it = |symbol: &&Sym64<Endianness>| {
            names.contains(&(symbol.st_name(endian) as usize)) && symbol.st_shndx(endian) != SHN_UNDEF
        };
        let found = (!names.is_empty()).then(|| table.symbols().iter().find(is_it)).flatten()?;
        Some(found.st_value(endian))
    })
}

fn segments(elf: &Elf<'_>) -> Vec<Segment> {
    let endian = elf.endian();
    elf.elf_program_headers()
        .iter()
        .filter(|header| header.p_type(endian) == object::elf::PT_LOAD)
        .map(|header| Segment {
            address: header.p_vaddr(endian),
            file_offset: header.p_offset(endian),
            file_bytes: header.p_filesz(endian),
        })
        .collect()
}

/// From `Py_Version` (3.11 and newer), else from the text among the constants, of which the name may say which.
fn version(elf: &Elf<'_>, named: Option<Version>) -> Option<Version> {
    if let Some(address) = symbol(elf, "Py_Version") {
        let segments = segments(elf);
        let offset = segments.iter().find_map(|segment| {
            let within =
                address.checked_sub(segment.address).filter(|within| *within < segment.file_bytes)?;
            segment.file_offset.checked_add(within)
        });
        let bytes = elf.data().read_bytes_at(offset?, 4).ok()?;
        let hex = u32::from_le_bytes(bytes.try_into().ok()?);
        return Some(Version::from_hex(hex.into(), false));
    }
    let constants = elf.section_by_name(".rodata").filter(|section| section.size() <= MOST_CONSTANT_BYTES);
    let constants = constants.and_then(|section| section.data().ok()).unwrap_or_default();
    let is_of_version = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+');
    let mut found: Vec<Version> = memmem::find_iter(constants, b"3.")
        // The linker may have made it the end of another text, such as a path.
        .filter(|at| at.checked_sub(1).is_none_or(|before| !is_of_version(&constants[before])))
        .filter_map(|at| {
            constants[at..].iter().take(13).position(|byte| *byte == 0).map(|end| &constants[at..at + end])
        })
        .filter(|text| text.len() >= 5 && text.iter().all(is_of_version))
        .filter_map(Version::from_text)
        .filter(|version| {
            named.map_or((9..=14).contains(&version.minor), |named| named.minor == version.minor)
        })
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [version] => Some(*version),
        _ => named,
    }
}
