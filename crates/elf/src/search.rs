//! Symbols found by name in tables of any size, a piece at a time: first where the names are among all names, then which
//! symbols have them. A table is never held in memory.

use crate::{Bytes, Layout, Part};
use aho_corasick::AhoCorasick;
use object::elf::{self, Sym64};
use object::{LittleEndian as LE, pod};
use std::collections::HashMap;

/// How much is read at a time.
const PIECE_BYTES: u64 = 256 << 10;
/// The largest tables of real libraries have a fraction of this; reading them takes a tenth of a second.
const MAX_NAME_BYTES: u64 = 256 << 20;
const MAX_TABLE_BYTES: u64 = 128 << 20;
/// Of one name: a linker that merges the ends of names leaves one, others a few.
const MAX_PLACES: usize = 16;
const SYMBOL_BYTES: u64 = size_of::<Sym64<LE>>() as u64;

/// Which tables are searched; what an earlier one defines counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// What the dynamic linker needs.
    Dynamic,
    /// All there is, unless it was stripped.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub address: u64,
    pub size: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Search {
    pub symbols: HashMap<String, Found>,
    /// A table was larger than any real one and was not read.
    pub is_too_large: bool,
}

/// The wanted symbols that a file defines.
pub fn find_symbols(file: &impl Bytes, layout: &Layout, tables: &[Table], wanted: &[&str]) -> Search {
    let mut search = Search::default();
    for table in tables {
        let parts = match table {
            Table::Full => &layout.symbols[0],
            Table::Dynamic => &layout.symbols[1],
        };
        if parts.names.size > MAX_NAME_BYTES || parts.table.size > MAX_TABLE_BYTES {
            search.is_too_large = true;
            continue;
        }
        let names = places_of_names(file, parts.names, wanted);
        if !names.is_empty() {
            take_symbols(file, parts.table, &names, wanted, &mut search.symbols);
        }
    }
    search
}

/// From a place in the table of names to the wanted name that begins there.
fn places_of_names(file: &impl Bytes, names: Part, wanted: &[&str]) -> HashMap<u32, usize> {
    // The linker may have made a name the end of another one, so only its end is known.
    let patterns: Vec<String> = wanted.iter().map(|name| format!("{name}\0")).collect();
    let longest = patterns.iter().map(String::len).max().unwrap_or(0) as u64;
    let Ok(matcher) = AhoCorasick::new(&patterns) else { return HashMap::new() };
    let mut places = HashMap::new();
    let mut counts = vec![0usize; wanted.len()];
    let mut at = 0;
    while at < names.size {
        // Pieces overlap, so that no name is cut.
        let size = (PIECE_BYTES + longest).min(names.size - at);
        let Some(bytes) = names.offset.checked_add(at).and_then(|offset| file.bytes(offset, size)) else {
            break;
        };
        for found in matcher.find_overlapping_iter(&bytes) {
            let (place, name) = (at + found.start() as u64, found.pattern().as_usize());
            if counts[name] < MAX_PLACES && places.insert(place as u32, name).is_none() {
                counts[name] += 1;
            }
        }
        at += PIECE_BYTES;
    }
    places
}

fn take_symbols(
    file: &impl Bytes,
    table: Part,
    names: &HashMap<u32, usize>,
    wanted: &[&str],
    symbols: &mut HashMap<String, Found>,
) {
    const PIECE: u64 = PIECE_BYTES / SYMBOL_BYTES * SYMBOL_BYTES;
    let mut at = 0;
    while at + SYMBOL_BYTES <= table.size {
        let size = PIECE.min((table.size - at) / SYMBOL_BYTES * SYMBOL_BYTES);
        let Some(bytes) = table.offset.checked_add(at).and_then(|offset| file.bytes(offset, size)) else {
            return;
        };
        let count = (size / SYMBOL_BYTES) as usize;
        let Ok((piece, _)) = pod::slice_from_bytes::<Sym64<LE>>(&bytes, count) else { return };
        for symbol in piece {
            let Some(name) = names.get(&symbol.st_name.get(LE)) else { continue };
            if symbol.st_shndx.get(LE) != elf::SHN_UNDEF {
                let found = Found { address: symbol.st_value.get(LE), size: symbol.st_size.get(LE) };
                symbols.entry(wanted[*name].to_string()).or_insert(found);
            }
        }
        at += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    fn symbol(name: u32, section: u16, value: u64) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&name.to_le_bytes());
        bytes[6..8].copy_from_slice(&section.to_le_bytes());
        bytes[8..16].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn layout(names: Part, table: Part) -> Layout {
        let mut layout = Layout::default();
        layout.symbols[1].names = names;
        layout.symbols[1].table = table;
        layout
    }

    #[test]
    fn names_that_end_others_and_lie_across_pieces_are_found() {
        let mut names = vec![b'x'; PIECE_BYTES as usize - 4];
        names.extend(b"\0__cudaMalloc\0cuInit\0");
        let place = |text: &str| {
            names.windows(text.len()).rposition(|window| window == text.as_bytes()).unwrap_or_default() as u32
        };
        let mut file = names.clone();
        let table = file.len() as u64;
        for _ in 0..20_000 {
            file.extend(symbol(0, 1, 7));
        }
        file.extend(symbol(place("cuInit\0"), 0, 1));
        file.extend(symbol(place("cuInit\0"), 3, 0x20));
        file.extend(symbol(place("cudaMalloc\0"), 3, 0x30));
        let parts = |offset, size| Part { address: 0, offset, size };
        let layout = layout(parts(0, table), parts(table, file.len() as u64 - table));
        let found = find_symbols(
            &file,
            &layout,
            &[Table::Full, Table::Dynamic],
            &["cuInit", "cudaMalloc", "cudaFree"],
        );
        let address = |name: &str| found.symbols.get(name).map(|found| found.address);
        assert_eq!(
            (address("cuInit"), address("cudaMalloc"), address("cudaFree")),
            (Some(0x20), Some(0x30), None)
        );
        assert!(!found.is_too_large);
    }

    #[test]
    fn claims_of_gigabytes_are_refused_unread() {
        let mut file = tempfile::tempfile().unwrap();
        file.seek(SeekFrom::Start((2 << 30) - 1)).unwrap();
        file.write_all(&[0]).unwrap();
        let all = Part { address: 0, offset: 0, size: 2 << 30 };
        for layout in [layout(all, Part { size: 24, ..all }), layout(Part { size: 24, ..all }, all)] {
            let found = find_symbols(&file, &layout, &[Table::Dynamic], &["cuInit"]);
            assert!(found.is_too_large && found.symbols.is_empty());
        }
    }
}
