//! A file that processes execute, open.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use gimli::UnwindContext;

use crate::debug_file;
use crate::limits::Limits;
use crate::names::{Line, Names};
use crate::symbol_table::SymbolTable;
use crate::tables::{Row, Tables};
use gpuwhy_elf::Layout;

/// A file and its contents at a time. Its change time is not part of it: deleting a file changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// The same contents in two containers. The build id alone could be forged, or given to two builds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    build_id: Vec<u8>,
    headers: u64,
    size: u64,
    modified: (i64, i64),
}

/// A file that is open, for any thread.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stamp: Stamp,
    /// Nothing if it is no ELF file.
    pub(crate) layout: Option<Layout>,
    file: File,
    debug: Option<(File, Layout, Stamp)>,
}

/// A file whose debug information has not been looked for.
pub(crate) struct Unsplit {
    pub(crate) stamp: Stamp,
    layout: Option<Layout>,
    file: File,
}

impl Unsplit {
    pub(crate) fn read(file: File, stamp: Stamp) -> Unsplit {
        Unsplit { stamp, layout: Layout::read(&file), file }
    }

    /// Where its debug information may be, if it has none itself; for the file at a path of the process.
    pub(crate) fn candidates(&self, path: &str) -> Vec<String> {
        let layout = self.layout.as_ref().filter(|layout| !layout.has_debug_info);
        layout.map(|layout| debug_file::candidates(layout, path)).unwrap_or_default()
    }
}

/// Everything known of one file. Tables and names are read when they are first needed.
pub(crate) struct Image {
    pub(crate) opened: Arc<Opened>,
    /// When it was last used, in turns.
    pub(crate) used: u64,
    /// When its names were last asked for.
    pub(crate) named: Instant,
    /// Its lines take more than is allowed: they are not read again.
    pub(crate) has_large_lines: bool,
    pub(crate) tables: Lazy<Tables>,
    pub(crate) names: Lazy<Names>,
}

/// Something that costs memory, so it may be dropped and read again.
pub(crate) enum Lazy<T> {
    Unread,
    Read(Box<T>),
    /// There is none, or it is too large.
    Nothing,
}

impl<T> Lazy<T> {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Lazy::Read(_))
    }

    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Lazy::Unread)
    }

    fn from(value: Option<T>) -> Lazy<T> {
        value.map_or(Lazy::Nothing, |value| Lazy::Read(Box::new(value)))
    }
}

impl Opened {
    /// `debug` are files that may be the other half of it.
    pub(crate) fn of(read: Unsplit, debug: impl Iterator<Item = File>) -> Opened {
        let Unsplit { stamp, layout, file } = read;
        let find = |layout: &Layout| debug.into_iter().find_map(|file| debug_file::matching(layout, file));
        let debug = layout.as_ref().filter(|layout| !layout.has_debug_info).and_then(find);
        let debug = debug
            .and_then(|(file, layout)| Some((Stamp::of(&file.metadata().ok()?), file, layout)))
            .map(|(stamp, file, layout)| (file, layout, stamp));
        Opened { stamp, layout, file, debug }
    }

    pub(crate) fn content(&self) -> Option<Content> {
        let layout = self.layout.as_ref()?;
        Some(Content {
            build_id: layout.build_id.clone()?,
            headers: layout.headers,
            size: self.stamp.size,
            modified: self.stamp.modified,
        })
    }

    pub(crate) fn build_id(&self) -> Option<String> {
        Some(debug_file::hex(self.layout.as_ref()?.build_id.as_ref()?))
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// What was mapped is not what is in the file now: it was written over in place.
    pub(crate) fn is_overwritten(&self) -> bool {
        let same = |file: &File, stamp: &Stamp| file.metadata().is_ok_and(|now| Stamp::of(&now) == *stamp);
        !same(&self.file, &self.stamp)
            || self.debug.as_ref().is_some_and(|(file, _, stamp)| !same(file, stamp))
    }
}

impl Image {
    pub(crate) fn new(opened: Arc<Opened>) -> Image {
        Image {
            opened,
            used: 0,
            named: Instant::now(),
            has_large_lines: false,
            tables: Lazy::Unread,
            names: Lazy::Unread,
        }
    }

    /// Bytes in memory.
    pub(crate) fn table_bytes(&self) -> u64 {
        if let Lazy::Read(tables) = &self.tables { tables.bytes() } else { 0 }
    }

    pub(crate) fn read_tables(&mut self, max_indexed: u64) {
        let layout = self.opened.layout.as_ref();
        let tables = layout.and_then(|layout| Tables::read(layout, &self.opened.file, max_indexed));
        self.tables = Lazy::from(tables);
    }

    /// How to go on from an address. A file that was written over meanwhile is not read any more.
    pub(crate) fn row(&mut self, address: u64, context: &mut UnwindContext<usize>) -> Option<Row> {
        let Lazy::Read(tables) = &self.tables else { return None };
        let row = tables.row(address, &self.opened.file, context);
        if self.opened.is_overwritten() {
            self.tables = Lazy::Nothing;
            return None;
        }
        row
    }

    /// Bytes that names and lines take in memory.
    pub(crate) fn name_bytes(&self, limits: &Limits) -> u64 {
        let layouts = self.opened.layout.iter().chain(self.opened.debug.iter().map(|(_, layout, _)| layout));
        layouts
            .map(|layout| {
                let lines = lines_of(layout, limits).filter(|_| !self.has_large_lines);
                symbols_of(layout, limits).unwrap_or(0) + lines.unwrap_or(0)
            })
            .sum()
    }

    pub(crate) fn read_names(&mut self, limits: &Limits) {
        let Some(layout) = self.opened.layout.as_ref().filter(|_| !self.opened.is_overwritten()) else {
            self.names = Lazy::Nothing;
            return;
        };
        let mut names = Names::default();
        let own = (&self.opened.file, layout);
        for (file, layout) in self.opened.debug.iter().map(|(file, layout, _)| (file, layout)).chain([own]) {
            let symbols = symbols_of(layout, limits).map(|_| SymbolTable::read(layout, file));
            names.add_symbols(symbols.unwrap_or_default());
            if layout.has_debug_info && !self.has_large_lines && lines_of(layout, limits).is_some() {
                self.has_large_lines = !names.add_lines(layout, file, limits.debug_bytes);
            }
        }
        self.names = Lazy::Read(Box::new(names));
    }

    pub(crate) fn lines_at(&mut self, address: u64) -> Rc<[Line]> {
        let files: Vec<&File> =
            self.opened.debug.iter().map(|(file, ..)| file).chain([&self.opened.file]).collect();
        match &self.names {
            Lazy::Read(names) => names.at(address, &files),
            Lazy::Unread | Lazy::Nothing => Rc::default(),
        }
    }
}

/// Bytes of its symbols, unless they are too many.
fn symbols_of(layout: &Layout, limits: &Limits) -> Option<u64> {
    Some(SymbolTable::size_in(layout)).filter(|bytes| *bytes <= limits.symbol_bytes)
}

/// Bytes of its lines, unless they are too many.
fn lines_of(layout: &Layout, limits: &Limits) -> Option<u64> {
    Some(layout.debug_bytes()).filter(|bytes| *bytes <= limits.debug_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    #[test]
    fn tables_of_a_file_that_was_written_over_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy("/proc/self/exe", &path).unwrap();
        let file = File::open(&path).unwrap();
        let stamp = Stamp::of(&file.metadata().unwrap());
        let opened = Opened::of(Unsplit::read(file, stamp), std::iter::empty());
        let code = opened.layout.as_ref().unwrap().text;
        let mut image = Image::new(Arc::new(opened));
        image.read_tables(0);
        let mut context = UnwindContext::new();
        let covered =
            (code..code + 4096).find(|address| image.row(*address, &mut context).is_some()).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        assert!(image.row(covered, &mut context).is_none());
        assert!(!image.tables.is_read());
    }
}
