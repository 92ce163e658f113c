//! Functions and lines of one file.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use crate::demangle::{cut, demangle};

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
