//! A file that processes execute, open.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;

use gpuwhy_proc::Inside;

use crate::debug_file;
use crate::names::{Line, Names};
use crate::symbol_table::SymbolTable;
use crate::tables::Tables;
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

/// Everything known of one file. Tables and names are read when they are first needed.
pub(crate) struct Image {
    pub(crate) opened: Arc<Opened>,
    /// When it was last used, in turns.
    pub(crate) used: u64,
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
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        match self {
            Lazy::Read(value) => Some(value),
            Lazy::Unread | Lazy::Nothing => None,
        }
    }

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
    /// Finds the debug file too: later the process and its root may be gone.
    pub(crate) fn open(file: File, path: &str, root: Option<&Inside>) -> Option<Opened> {
        let stamp = Stamp::of(&file.metadata().ok()?);
        let layout = Layout::read(&file);
        let debug = layout
            .as_ref()
            .filter(|layout| !layout.has_debug_info)
            .and_then(|layout| debug_file::find(layout, path, root))
            .and_then(|(file, layout)| Some((Stamp::of(&file.metadata().ok()?), file, layout)))
            .map(|(stamp, file, layout)| (file, layout, stamp));
        Some(Opened { stamp, layout, file, debug })
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
        Image { opened, used: 0, tables: Lazy::Unread, names: Lazy::Unread }
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.opened.layout.as_ref().map_or(0, Tables::size_in)
    }

    pub(crate) fn read_tables(&mut self, most: u64) {
        let fits = self.table_bytes() <= most && !self.opened.is_overwritten();
        let layout = self.opened.layout.as_ref().filter(|_| fits);
        self.tables = Lazy::from(layout.and_then(|layout| Tables::read(layout, &self.opened.file)));
    }

    /// Bytes that names and lines take in memory. Lines that would take more than `most` are not read.
    pub(crate) fn name_bytes(&self, most: u64) -> u64 {
        let layouts = self.opened.layout.iter().chain(self.opened.debug.iter().map(|(_, layout, _)| layout));
        layouts
            .map(|layout| SymbolTable::size_in(layout).saturating_add(lines_of(layout, most).unwrap_or(0)))
            .sum()
    }

    pub(crate) fn read_names(&mut self, most: u64) {
        let Some(layout) = self.opened.layout.as_ref().filter(|_| !self.opened.is_overwritten()) else {
            self.names = Lazy::Nothing;
            return;
        };
        let mut names = Names::default();
        let own = (&self.opened.file, layout);
        for (file, layout) in self.opened.debug.iter().map(|(file, layout, _)| (file, layout)).chain([own]) {
            names.add_symbols(if SymbolTable::size_in(layout) <= most {
                SymbolTable::read(layout, file)
            } else {
                SymbolTable::default()
            });
            if layout.has_debug_info && lines_of(layout, most).is_some() {
                names.add_lines(layout, file);
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

fn lines_of(layout: &Layout, most: u64) -> Option<u64> {
    Some(layout.debug_bytes()).filter(|bytes| *bytes <= most)
}
