//! Entry points for the fuzzers in `fuzz/`: what is read of files that traced processes run. Nothing else calls them.

use crate::demangle::demangle;
use crate::frame::Registers;
use crate::names::Names;
use crate::perf_map::PerfMap;
use crate::stack::Stack;
use crate::symbol_table::SymbolTable;
use crate::tables::Tables;
use crate::walk::{Place, Step};
use gimli::UnwindContext;
use gpuwhy_elf::{Bytes, DebugPart, Layout, Part};
use std::fs::File;

/// Frames of one stack.
const FRAMES: usize = 64;
/// As the limits of [`crate::Limits`], for files as small as these are.
const DEBUG_BYTES: u64 = 16 << 20;

/// The whole of an ELF file: names, lines and callers at these addresses.
pub fn file(file: &File, addresses: &[u64], stack: &[u8]) {
    let Some(layout) = Layout::read(file) else { return };
    for address in addresses {
        layout.address_of(*address);
    }
    let mut names = Names::default();
    names.add_symbols(SymbolTable::read(&layout, file));
    if layout.debug_bytes() <= DEBUG_BYTES {
        names.add_lines(&layout, file, DEBUG_BYTES);
    }
    for address in addresses {
        names.at(*address, &[file]);
    }
    if let Some(tables) = Tables::read(&layout, file, DEBUG_BYTES) {
        walk(&tables, file, addresses, stack);
    }
}

/// Unwind tables alone: a section linked for `start`, and its index right before it.
pub fn unwind(index: &[u8], section: &[u8], start: u64, addresses: &[u64], stack: &[u8]) {
    let bytes = [index, section].concat();
    let index_size = index.len() as u64;
    let part = |offset: u64, size: u64| Part { address: start.wrapping_add(offset), offset, size };
    let layout = Layout {
        eh_frame_hdr: (!index.is_empty()).then(|| part(0, index_size)),
        eh_frame: Some(part(index_size, section.len() as u64)),
        text: start,
        ..Layout::default()
    };
    if let Some(tables) = Tables::read(&layout, &bytes, DEBUG_BYTES) {
        walk(&tables, &bytes, addresses, stack);
    }
}

fn walk(tables: &Tables, file: &impl Bytes, addresses: &[u64], stack: &[u8]) {
    let mut context = UnwindContext::new();
    let stack = Stack { start: 0x7000, bytes: stack, swapped: &[] };
    for address in addresses {
        #[allow(clippy::needless_update, reason = "other machines have a register more")]
        let mut place =
            Place::new(Registers { ip: *address, sp: 0x7000, bp: 0x7020, ..Registers::default() });
        for _ in 0..FRAMES {
            let step = match tables.row(place.lookup(), file, &mut context) {
                Some(row) => place.step(&row, &stack),
                None => place.step_by_frame_pointer(&stack),
            };
            if step != Step::Caller {
                break;
            }
        }
    }
}

/// Debug information alone: `file` has the sections of these names one behind the other, each of so many bytes.
pub fn lines(file: &File, sections: &[(&'static str, u64)], addresses: &[u64]) {
    let mut layout = Layout::default();
    let mut offset = 0;
    for (name, size) in sections {
        let part = Part { address: 0, offset, size: *size };
        layout.debug_sections.push((name, DebugPart { part, inflated: None }));
        offset += size;
    }
    let mut names = Names::default();
    names.add_lines(&layout, file, DEBUG_BYTES);
    for address in addresses {
        names.at(*address, &[]);
    }
}

/// A mangled name; what is shown of it.
pub fn name(mangled: &str) -> String {
    demangle(mangled)
}

/// The map that a just-in-time compiler writes, in two parts.
pub fn perf_map(text: &[u8]) {
    let mut map = PerfMap::default();
    let (first, rest) = text.split_at(text.len() / 2);
    map.take(first);
    map.take(rest);
    for address in (0..0x1_0000).step_by(0x333).chain([u64::MAX]) {
        map.at(address);
    }
}
