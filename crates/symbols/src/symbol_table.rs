//! The functions of a file, by address. Their names stay in the file.

use object::elf::{self, Sym64};
use object::{LittleEndian as LE, pod};

use crate::demangle::demangle;
use gpuwhy_elf::{Bytes, Layout, Part};

/// Symbols read at a time.
const CHUNK: u64 = 8_192;
/// Functions that begin before an address but end before it too, or are the same under another name.
const MAX_SKIPPED: usize = 64;
const MAX_NAME_LEN: u64 = 64 << 10;

/// No file is linked above; sums with such addresses would overflow.
pub(crate) const MAX_ADDRESS: u64 = 1 << 56;

/// A library may have half a million: 16 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Where it starts, above how good its name is (a bit or two) and which table it is from (a bit).
    key: u64,
    size: u32,
    /// Where in the file its name is.
    name: u32,
}

impl Entry {
    fn start(self) -> u64 {
        self.key >> 8
    }

    fn table(self) -> usize {
        usize::from(self.key & 1 != 0)
    }
}

/// Sorted by start; of the same start the best name last.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    entries: Vec<Entry>,
    names: [Part; 2],
}

impl SymbolTable {
    /// Bytes in memory.
    pub(crate) fn size_in(layout: &Layout) -> u64 {
        layout.symbol_count().saturating_mul(size_of::<Entry>() as u64)
    }

    pub(crate) fn read(layout: &Layout, file: &impl Bytes) -> SymbolTable {
        let mut entries = Vec::new();
        for (table, parts) in layout.symbols.iter().enumerate() {
            let size = size_of::<Sym64<LE>>() as u64;
            let count = parts.table.size / size;
            for first in (0..count).step_by(CHUNK as usize) {
                let here = CHUNK.min(count - first);
                let Some(bytes) = file.bytes(parts.table.offset.saturating_add(first * size), here * size)
                else {
                    break;
                };
                let Ok((symbols, _)) = pod::slice_from_bytes::<Sym64<LE>>(&bytes, here as usize) else {
                    break;
                };
                entries.extend(symbols.iter().filter_map(|symbol| entry(symbol, table)));
            }
        }
        entries.sort_unstable_by_key(|entry: &Entry| entry.key);
        entries.shrink_to_fit();
        SymbolTable { entries, names: layout.symbols.map(|parts| parts.names) }
    }

    pub(crate) fn name_at(&self, address: u64, file: &impl Bytes) -> Option<String> {
        let after = self.entries.partition_point(|entry| entry.start() <= address);
        let mut before = self.entries[..after].iter().rev().take(MAX_SKIPPED);
        let nearest = self.entries.get(after.checked_sub(1)?)?.start();
        let entry = before.find(|entry| {
            // Code written in assembler may have no size: it goes on to the next.
            address - entry.start() < u64::from(entry.size) || (entry.size == 0 && entry.start() == nearest)
        })?;
        let names = self.names.get(entry.table())?;
        let at = u64::from(entry.name);
        let mut length = 256.min(names.size.checked_sub(at)?);
        loop {
            let bytes = file.bytes(names.offset.checked_add(at)?, length)?;
            let end = bytes.iter().position(|byte| *byte == 0);
            let most = MAX_NAME_LEN.min(names.size - at);
            if end.is_some() || length >= most {
                let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
                return (!name.is_empty()).then(|| demangle(&name));
            }
            length = (length * 16).min(most);
        }
    }
}

fn entry(symbol: &Sym64<LE>, table: usize) -> Option<Entry> {
    let kind = symbol.st_type();
    let is_function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
    let start = symbol.st_value.get(LE);
    (is_function && symbol.st_shndx.get(LE) != elf::SHN_UNDEF && start < MAX_ADDRESS).then_some(())?;
    let rank = match symbol.st_bind() {
        elf::STB_GLOBAL => 2,
        elf::STB_WEAK => 1,
        _ => 0,
    };
    Some(Entry {
        key: start << 8 | rank << 1 | table as u64,
        size: u32::try_from(symbol.st_size.get(LE)).unwrap_or(u32::MAX),
        name: symbol.st_name.get(LE),
    })
}
