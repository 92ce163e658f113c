//! Where things are in an ELF file. Reads headers and small sections only, whatever size the file has.

use crate::Bytes;
use flate2::read::ZlibDecoder;
use object::elf::{self, CompressionHeader64, FileHeader64, ProgramHeader64, SectionHeader64};
use object::{LittleEndian as LE, pod};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

const MAX_SEGMENTS: usize = 256;
const MAX_SECTIONS: usize = 8192;
const MAX_NAMES: u64 = 1 << 20;
const MAX_NOTES: u64 = 64 << 10;
/// A linker writes one.
const MAX_RUN_PATHS: usize = 8;
/// Dynamic sections and their texts, for run paths.
const MAX_DYNAMIC: u64 = 16 << 20;

#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;
#[cfg(not(target_arch = "aarch64"))]
const MACHINE: elf::Machine = elf::EM_X86_64;

/// A part of the file and the address it is linked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    pub address: u64,
    pub offset: u64,
    pub size: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SymbolParts {
    pub table: Part,
    pub names: Part,
}

/// A section of debug information.
#[derive(Debug, Clone, Copy)]
pub struct DebugPart {
    pub part: Part,
    /// Its size in memory, if it is compressed.
    pub inflated: Option<u64>,
}

/// What is read of debug information.
const DEBUG_SECTIONS: [&str; 10] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
];

/// What of an ELF file is needed here.
#[derive(Debug, Default)]
pub struct Layout {
    pub build_id: Option<Vec<u8>>,
    /// Tells files with the same build id apart that are not the same.
    pub headers: u64,
    pub segments: Vec<Part>,
    pub eh_frame: Option<Part>,
    pub eh_frame_hdr: Option<Part>,
    pub text: u64,
    pub got: u64,
    /// Tables and their names: `.symtab` with `.strtab`, `.dynsym` with `.dynstr`.
    pub symbols: [SymbolParts; 2],
    /// By name.
    pub debug_sections: Vec<(&'static str, DebugPart)>,
    /// `.PyRuntime`: where CPython 3.10 and newer keep their state; `strip` leaves it.
    pub python_runtime: Option<Part>,
    /// `.rodata`: constants, texts among them.
    pub constants: Option<Part>,
    /// `.dynamic`: what the dynamic linker is told.
    pub dynamic: Option<Part>,
    /// `.gnu_debuglink`: the name of the debug file and its checksum.
    pub debug_link: Option<(String, u32)>,
    pub has_debug_info: bool,
}

impl Layout {
    /// Nothing if it is no ELF file of this machine.
    pub fn read(file: &impl Bytes) -> Option<Layout> {
        let head = file.bytes(0, size_of::<FileHeader64<LE>>() as u64)?;
        let (header, _) = pod::from_bytes::<FileHeader64<LE>>(&head).ok()?;
        let ident = &header.e_ident;
        let ours = ident.magic == elf::ELFMAG
            && ident.class == elf::ELFCLASS64
            && ident.data == elf::ELFDATA2LSB
            && header.e_machine.get(LE) == MACHINE;
        ours.then_some(())?;
        let mut hasher = DefaultHasher::new();
        head.hash(&mut hasher);
        let mut layout = Layout::default();
        layout.read_segments(file, header, &mut hasher);
        layout.read_sections(file, header, &mut hasher);
        layout.headers = hasher.finish();
        Some(layout)
    }

    /// The address that a place in the file is linked for.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let inside = offset.checked_sub(segment.offset).filter(|inside| *inside < segment.size)?;
            segment.address.checked_add(inside)
        })
    }

    /// Where in the file the bytes for an address are.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.size)?;
            segment.offset.checked_add(inside)
        })
    }

    /// DT_RPATH and DT_RUNPATH as written: the dynamic section is pairs of a tag and a value, of these the place of a text.
    pub fn run_paths(&self, file: &impl Bytes) -> Vec<String> {
        const DT_RPATH: u64 = 15;
        const DT_RUNPATH: u64 = 29;
        let read = |part: Part| {
            (part.size <= MAX_DYNAMIC)
                .then(|| file.bytes(part.offset, part.size))
                .flatten()
                .unwrap_or_default()
        };
        let Some(dynamic) = self.dynamic else { return Vec::new() };
        let texts = read(self.symbols[1].names);
        let bytes = read(dynamic);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        let entries = bytes.chunks_exact(16).map(|entry| (number(&entry[..8]), number(&entry[8..])));
        let places = entries.filter(|(tag, _)| matches!(*tag, DT_RPATH | DT_RUNPATH)).map(|(_, place)| place);
        let text = |place: u64| {
            let rest = texts.get(usize::try_from(place).ok()?..)?;
            String::from_utf8(rest[..rest.iter().position(|byte| *byte == 0)?].to_vec()).ok()
        };
        places.take(MAX_RUN_PATHS).filter_map(text).collect()
    }

    fn read_segments(&mut self, file: &impl Bytes, header: &FileHeader64<LE>, hasher: &mut DefaultHasher) {
        let count = usize::from(header.e_phnum.get(LE)).min(MAX_SEGMENTS);
        let size = (count * size_of::<ProgramHeader64<LE>>()) as u64;
        let Some(bytes) = file.bytes(header.e_phoff.get(LE), size) else { return };
        bytes.hash(hasher);
        let Ok((segments, _)) = pod::slice_from_bytes::<ProgramHeader64<LE>>(&bytes, count) else { return };
        for segment in segments {
            let part = Part {
                address: segment.p_vaddr.get(LE),
                offset: segment.p_offset.get(LE),
                size: segment.p_filesz.get(LE),
            };
            match segment.p_type.get(LE) {
                elf::PT_LOAD => self.segments.push(part),
                elf::PT_NOTE if self.build_id.is_none() => {
                    let notes = file.bytes(part.offset, part.size.min(MAX_NOTES));
                    self.build_id = notes.and_then(|notes| build_id(&notes));
                }
                elf::PT_GNU_EH_FRAME => self.eh_frame_hdr = Some(part),
                _ => {}
            }
        }
        // Without section headers the table's own header says where the table is.
        self.eh_frame = self.eh_frame_hdr.and_then(|hdr| self.eh_frame_behind(file, hdr));
    }

    fn eh_frame_behind(&self, file: &impl Bytes, hdr: Part) -> Option<Part> {
        const VERSION_AND_RELATIVE_I32: [u8; 2] = [1, 0x1b];
        let bytes = file.bytes(hdr.offset, 8)?;
        (bytes[..2] == VERSION_AND_RELATIVE_I32).then_some(())?;
        let distance = i32::from_le_bytes(bytes[4..8].try_into().ok()?);
        let address = hdr.address.checked_add(4)?.checked_add_signed(i64::from(distance))?;
        self.segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.size)?;
            Some(Part { address, offset: segment.offset.checked_add(inside)?, size: segment.size - inside })
        })
    }

    fn read_sections(&mut self, file: &impl Bytes, header: &FileHeader64<LE>, hasher: &mut DefaultHasher) {
        let count = usize::from(header.e_shnum.get(LE)).min(MAX_SECTIONS);
        let size = (count * size_of::<SectionHeader64<LE>>()) as u64;
        let Some(bytes) = file.bytes(header.e_shoff.get(LE), size) else { return };
        bytes.hash(hasher);
        let Ok((sections, _)) = pod::slice_from_bytes::<SectionHeader64<LE>>(&bytes, count) else { return };
        let names = sections.get(usize::from(header.e_shstrndx.get(LE).0)).and_then(|section| {
            file.bytes(section.sh_offset.get(LE), section.sh_size.get(LE).min(MAX_NAMES))
        });
        let Some(names) = names else { return };
        for section in sections {
            let name = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            self.take_section(file, name, section);
        }
    }

    fn take_section(&mut self, file: &impl Bytes, name: &[u8], section: &SectionHeader64<LE>) {
        let part = Part {
            address: section.sh_addr.get(LE),
            offset: section.sh_offset.get(LE),
            size: section.sh_size.get(LE),
        };
        let in_file = section.sh_type.get(LE) != elf::SHT_NOBITS;
        match name {
            b".eh_frame" if in_file => self.eh_frame = Some(part),
            b".eh_frame_hdr" if in_file => self.eh_frame_hdr = Some(part),
            b".text" => self.text = part.address,
            b".got" => self.got = part.address,
            b".gnu_debuglink" if in_file => {
                self.debug_link =
                    file.bytes(part.offset, part.size.min(4096)).and_then(|link| debug_link(&link));
            }
            b".PyRuntime" => self.python_runtime = Some(part),
            b".rodata" if in_file => self.constants = Some(part),
            b".dynamic" if in_file => self.dynamic = Some(part),
            b".symtab" if in_file => self.symbols[0].table = part,
            b".strtab" if in_file => self.symbols[0].names = part,
            b".dynsym" if in_file => self.symbols[1].table = part,
            b".dynstr" if in_file => self.symbols[1].names = part,
            _ => {}
        }
        let debug =
            DEBUG_SECTIONS.iter().find(|known| known.as_bytes() == name).filter(|_| in_file && part.size > 0);
        if let Some(name) = debug {
            let compressed = section.sh_flags.get(LE).0 & elf::SHF_COMPRESSED.0 != 0;
            let inflated = if compressed { inflated_size(file, part).or(Some(0)) } else { None };
            self.debug_sections.push((name, DebugPart { part, inflated }));
            self.has_debug_info |= *name == ".debug_info";
        }
    }

    /// Bytes that debug information takes in memory.
    pub fn debug_bytes(&self) -> u64 {
        let sizes = self.debug_sections.iter().map(|(_, debug)| debug.inflated.unwrap_or(debug.part.size));
        sizes.fold(0, u64::saturating_add)
    }

    /// Symbols in the tables.
    pub fn symbol_count(&self) -> u64 {
        self.symbols.iter().map(|parts| parts.table.size / size_of::<elf::Sym64<LE>>() as u64).sum()
    }
}

/// Nothing if it is compressed in another way than zlib's.
fn inflated_size(file: &impl Bytes, part: Part) -> Option<u64> {
    let bytes = file.bytes(part.offset, size_of::<CompressionHeader64<LE>>() as u64)?;
    let (header, _) = pod::from_bytes::<CompressionHeader64<LE>>(&bytes).ok()?;
    (header.ch_type.get(LE) == elf::ELFCOMPRESS_ZLIB).then_some(header.ch_size.get(LE))
}

impl DebugPart {
    /// The section as it is meant; empty if it cannot be read.
    pub fn read(&self, file: &impl Bytes) -> Vec<u8> {
        let Some(bytes) = file.bytes(self.part.offset, self.part.size) else { return Vec::new() };
        let Some(size) = self.inflated else { return bytes };
        let packed = bytes.get(size_of::<CompressionHeader64<LE>>()..).unwrap_or_default();
        let mut inflated = Vec::new();
        // What cannot be inflated ends early; the readers notice.
        let _ = ZlibDecoder::new(packed).take(size).read_to_end(&mut inflated);
        inflated
    }
}

fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let number = |at: usize| Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?) as usize);
        let (name_size, size, kind) = (number(0)?, number(4)?, number(8)?);
        let name = rest.get(12..12usize.checked_add(name_size)?)?;
        let start = 12 + name_size.next_multiple_of(4);
        let value = rest.get(start..start.checked_add(size)?)?;
        if kind == elf::NT_GNU_BUILD_ID.0 as usize && name == b"GNU\0" {
            return (4..=64).contains(&value.len()).then(|| value.to_vec());
        }
        rest = rest.get(start + size.next_multiple_of(4)..)?;
    }
}

fn debug_link(section: &[u8]) -> Option<(String, u32)> {
    let end = section.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&section[..end]).ok()?;
    let at = (end + 1).next_multiple_of(4);
    let checksum = u32::from_le_bytes(section.get(at..at + 4)?.try_into().ok()?);
    (!name.is_empty() && !name.contains('/')).then(|| (name.to_string(), checksum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn this_program_is_read() {
        let file = File::open("/proc/self/exe").unwrap();
        let layout = Layout::read(&file).unwrap();
        assert!(layout.eh_frame.is_some() && layout.eh_frame_hdr.is_some());
        assert!(layout.segments.len() > 1);
    }

    #[test]
    fn without_sections_the_tables_are_found_too() {
        let mut bytes = fs::read("/proc/self/exe").unwrap();
        let whole = Layout::read(&bytes).unwrap();
        bytes[60..62].fill(0);
        let bare = Layout::read(&bytes).unwrap();
        let (whole, bare) = (whole.eh_frame.unwrap(), bare.eh_frame.unwrap());
        assert_eq!((whole.address, whole.offset), (bare.address, bare.offset));
        assert!(bare.size >= whole.size);
    }

    /// Any byte of the headers changed, and cut anywhere: an answer or none, no panic.
    #[test]
    fn damaged_files_are_survived() {
        let bytes = fs::read("/proc/self/exe").unwrap();
        for cut in (0..4096).chain([bytes.len() / 2, bytes.len() - 1]) {
            Layout::read(&bytes[..cut].to_vec());
        }
        let mut damaged = bytes[..65_536.min(bytes.len())].to_vec();
        for at in 0..2048 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let before = std::mem::replace(&mut damaged[at], value);
                Layout::read(&damaged);
                damaged[at] = before;
            }
        }
        assert!(build_id(&[0xff; 64]).is_none());
        assert!(debug_link(&[b'a'; 64]).is_none());
    }
}
