//! Functions and lines of one file.

use std::convert::Infallible;
use std::fs::File;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian, SectionId};

use crate::demangle::{cut, demangle};
use crate::symbol_table::{MAX_ADDRESS, SymbolTable};
use gpuwhy_elf::Layout;

/// Functions inlined into each other at one address.
const MAX_INLINED: usize = 128;
/// What is held of a unit beside its bytes: abbreviations, ranges, the start of its lines. In a C library, whose units are
/// many and small, this is three times its debug information.
const UNIT_BYTES: u64 = 16 << 10;
const DEEPEST: isize = 1000;

type Reader = EndianRcSlice<LittleEndian>;

/// A function at an address of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) inlined: bool,
}

/// What a file and its separate debug file say of addresses.
#[derive(Default)]
pub(crate) struct Names {
    /// The debug file's, then the file's own.
    symbols: Vec<SymbolTable>,
    lines: Option<Context<Reader>>,
}

impl Names {
    pub(crate) fn add_symbols(&mut self, table: SymbolTable) {
        self.symbols.push(table);
    }

    /// Reads lines if they take no more than so many bytes. Whether they do.
    pub(crate) fn add_lines(&mut self, layout: &Layout, file: &File, max_bytes: u64) -> bool {
        let section = |id: SectionId| {
            let found = layout.debug_sections.iter().find(|(name, _)| *name == id.name());
            let bytes = found.map(|(_, part)| part.read(file)).unwrap_or_default();
            Ok::<_, Infallible>(Reader::new(bytes.into(), LittleEndian))
        };
        let Ok(dwarf) = Dwarf::load(section);
        let bytes = layout.debug_bytes().saturating_add(units_of(&dwarf).saturating_mul(UNIT_BYTES));
        if bytes > max_bytes {
            return false;
        }
        self.lines = Some(dwarf).filter(is_shallow).and_then(|dwarf| Context::from_dwarf(dwarf).ok());
        true
    }

    /// Innermost first; none if nothing knows the address. `files` are those the symbols were read from, in their order.
    pub(crate) fn at(&self, address: u64, files: &[&File]) -> Rc<[Line]> {
        if address >= MAX_ADDRESS {
            return Rc::default();
        }
        let mut lines = self.lines_at(address).unwrap_or_default();
        let needs_name = lines.last().is_none_or(|outermost| outermost.function.is_none());
        if needs_name {
            let mut tables = self.symbols.iter().zip(files);
            let function = tables.find_map(|(table, file)| table.name_at(address, *file));
            match lines.last_mut() {
                Some(outermost) => outermost.function = function,
                None if function.is_none() => return Rc::default(),
                None => lines.push(Line { function, file: None, line: None, inlined: false }),
            }
        }
        lines.into()
    }

    fn lines_at(&self, address: u64) -> Option<Vec<Line>> {
        let mut frames = self.lines.as_ref()?.find_frames(address).skip_all_loads().ok()?;
        let mut lines = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let place = frame.location;
            lines.push(Line {
                function: name.map(|name| demangle(&name)),
                file: place.as_ref().and_then(|place| place.file).map(|file| cut(file).to_string()),
                line: place.and_then(|place| place.line),
                inlined: true,
            });
            if lines.len() >= MAX_INLINED {
                break;
            }
        }
        lines.last_mut()?.inlined = false;
        Some(lines)
    }
}

fn units_of(dwarf: &Dwarf<Reader>) -> u64 {
    let mut headers = dwarf.units();
    let mut count = 0;
    while let Ok(Some(_)) = headers.next() {
        count += 1;
    }
    count
}

/// Whether nothing is nested so deep that those who follow it run out of stack. Compilers stay below a hundred.
fn is_shallow(dwarf: &Dwarf<Reader>) -> bool {
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Ok(mut entries) = unit.entries_raw(None) else { continue };
        while !entries.is_empty() {
            if entries.next_depth() > DEEPEST {
                return false;
            }
            match entries.read_abbreviation() {
                Ok(Some(abbreviation)) => {
                    if entries.skip_attributes(abbreviation.attributes()).is_err() {
                        break;
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Stack;
    use crate::tables::Tables;
    use crate::walk::Place;
    use std::process::Command;

    const SOURCE: &str = "
        #include <stdio.h>
        static inline __attribute__((always_inline)) int inner(int n) { return printf(\"%d\", n); }
        __attribute__((noinline)) int outer(int n) { return inner(n) + inner(n + 1); }
        int main(int argc, char **argv) { return outer(argc); }
    ";

    /// Bytes changed at random, everywhere and in the headers: an answer or none, and no panic. `GPUWHY_FUZZ` is the
    /// number of rounds.
    #[test]
    fn damaged_files_are_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        let built =
            Command::new("gcc").args(["-g", "-O1", "a.c", "-o", "damaged"]).current_dir(&folder).status();
        if !built.is_ok_and(|status| status.success()) {
            return gpuwhy_testkit::skip("damaged_files_are_survived", "there is no gcc");
        }
        let whole = std::fs::read(&path).unwrap();
        let rounds = std::env::var("GPUWHY_FUZZ").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300);
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(16) {
                let size = bytes.len();
                let at = [random(size), random(0x400), size - 1 - random(0x900)][random(3)];
                bytes[at] = [random(256) as u8, 0, 0xff, 0x80, bytes[at] ^ (1 << random(8))][random(5)];
            }
            if random(8) == 0 {
                bytes.truncate(random(whole.len()));
            }
            std::fs::write(&path, &bytes).unwrap();
            let file = File::open(&path).unwrap();
            let Some(layout) = Layout::read(&file) else { continue };
            let mut names = Names::default();
            names.add_symbols(SymbolTable::read(&layout, &file));
            // As long as sections say so, files this small do not inflate to more.
            if layout.debug_bytes() < 64 << 20 {
                names.add_lines(&layout, &file, 64 << 20);
            }
            let tables = Tables::read(&layout, &file, 64 << 20);
            for address in (0x1000..0x1300).step_by(23).chain([0, u64::MAX]) {
                names.at(address, &[&file]);
                let stack = [0x10u8; 256];
                let stack = Stack { start: 0x7000, bytes: &stack, swapped: &[] };
                let registers = crate::Registers { ip: address, sp: 0x7000, bp: 0x7020 };
                if let Some(tables) = &tables
                    && let Some(row) = tables.row(address, &file, &mut gimli::UnwindContext::new())
                {
                    Place::new(registers).step(&row, &stack);
                }
            }
        }
    }
}
