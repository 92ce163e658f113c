//! Functions and lines of one file.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use crate::demangle::{cut, demangle};

const HIGHEST: u64 = 1 << 56;

/// A function at an address of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) inlined: bool,
}

/// Symbolizers of one file: dropped with it, so nothing of it stays.
pub(crate) struct Names {
    symbolizer: Symbolizer,
    sources: Vec<Source<'static>>,
}

impl Names {
    /// `debug` is the separate debug file. Both stay open as long as this is used.
    pub(crate) fn new(file: &File, file_has_lines: bool, debug: Option<&File>) -> Names {
        let mut sources = Vec::new();
        let mut add = |file: &File, debug_syms| {
            let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
            elf.debug_syms = debug_syms;
            sources.push(Source::Elf(elf));
        };
        if let Some(debug) = debug {
            add(debug, true);
            add(debug, false);
        }
        if file_has_lines {
            add(file, true);
        }
        add(file, false);
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_demangling(false)
            .set_debug_dirs(Some(["/usr/lib/debug"]))
            .build();
        Names { symbolizer, sources }
    }

    /// Innermost first; none if no source knows the address.
    pub(crate) fn at(&self, address: u64) -> Rc<[Line]> {
        // No file is linked up there; sums with such addresses would overflow.
        if address >= HIGHEST {
            return Rc::default();
        }
        let found = self.sources.iter().find_map(|source| {
            let symbolized = self.symbolizer.symbolize_single(source, Input::VirtOffset(address)).ok()?;
            let Symbolized::Sym(symbol) = symbolized else { return None };
            let mut lines = vec![line(&symbol.name, symbol.code_info.as_deref(), false)];
            lines.extend(
                symbol.inlined.iter().map(|inlined| line(&inlined.name, inlined.code_info.as_ref(), true)),
            );
            lines.reverse();
            Some(lines)
        });
        found.unwrap_or_default().into()
    }
}

fn line(name: &str, code: Option<&CodeInfo<'_>>, inlined: bool) -> Line {
    let path = code.map(CodeInfo::to_path);
    Line {
        function: demangle(name),
        file: path.map(|path: std::borrow::Cow<'_, Path>| cut(&path.to_string_lossy()).to_string()),
        line: code.and_then(|code| code.line),
        inlined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Layout;
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

    /// Bytes changed at random, everywhere and in the headers: an answer or none, and no panic.
    #[test]
    fn damaged_files_are_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        let built =
            Command::new("gcc").args(["-g", "-O1", "a.c", "-o", "damaged"]).current_dir(&folder).status();
        if !built.is_ok_and(|status| status.success()) {
            return eprintln!("SKIPPED damaged_files_are_survived: there is no gcc");
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
            let names = Names::new(&file, true, Some(&file));
            let mut tables = Tables::read(&layout, &file);
            for address in (0x1000..0x1300).step_by(23).chain([0, u64::MAX]) {
                names.at(address);
                let stack = [0x10u8; 256];
                let stack = Stack { start: 0x7000, bytes: &stack, swapped: &[] };
                let registers = crate::Registers { ip: address, sp: 0x7000, bp: 0x7020 };
                if let Some(tables) = &mut tables
                    && let Some(row) = tables.row(address, &mut gimli::UnwindContext::new())
                {
                    Place::new(registers).step(&row, tables, &stack);
                }
            }
        }
    }
}
