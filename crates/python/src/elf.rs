//! What an ELF file tells of the Python in it.

use crate::Version;
use crate::maps::Mapping;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadCache};
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
                (first..segment.file_offset + segment.file_bytes).contains(&mapping.file_offset)
            })?;
            let at_zero = mapping.start.wrapping_sub(mapping.file_offset);
            Some(at_zero.wrapping_add(segment.file_offset).wrapping_sub(segment.address))
        })
    }
}

fn symbol(elf: &Elf<'_>, name: &str) -> Option<u64> {
    let tables = [elf.dynamic_symbol_table(), elf.symbol_table()];
    tables.into_iter().flatten().find_map(|table| {
        let symbol = table.symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        Some(symbol.address())
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
        let bytes = elf.sections().find_map(|section| section.data_range(address, 4).ok().flatten())?;
        let hex = u32::from_le_bytes(bytes.try_into().ok()?);
        return Some(Version::from_hex(hex.into(), false));
    }
    let constants = elf.section_by_name(".rodata").filter(|section| section.size() <= MOST_CONSTANT_BYTES);
    let constants = constants.and_then(|section| section.data().ok()).unwrap_or_default();
    let is_of_version = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+');
    let mut found: Vec<Version> = constants
        .split(|byte| *byte == 0)
        // The linker may have made it the end of another text, such as a path.
        .map(|text| text.rsplit(|byte| !is_of_version(byte)).next().unwrap_or_default())
        .filter(|text| (5..=12).contains(&text.len()) && text.starts_with(b"3."))
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
