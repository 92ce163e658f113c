//! A file that processes execute, open.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use crate::debug_file;
use crate::elf::Layout;
use crate::names::Names;
use crate::root::Root;
use crate::tables::Tables;

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

/// Everything known of one file. Tables and names are read when they are first needed.
pub(crate) struct Image {
    pub(crate) stamp: Stamp,
    /// Nothing if it is no ELF file.
    pub(crate) layout: Option<Layout>,
    /// When it was last used, in turns.
    pub(crate) used: u64,
    pub(crate) tables: Lazy<Tables>,
    pub(crate) names: Lazy<Names>,
    file: File,
    debug: Option<(File, Layout, Stamp)>,
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

impl Image {
    /// Finds the debug file too: later the process and its root may be gone.
    pub(crate) fn open(file: File, path: &str, root: &Root) -> Option<Image> {
        let stamp = Stamp::of(&file.metadata().ok()?);
        let layout = Layout::read(&file);
        let debug = layout
            .as_ref()
            .filter(|layout| !layout.has_debug_info)
            .and_then(|layout| debug_file::find(layout, path, root))
            .and_then(|(file, layout)| Some((Stamp::of(&file.metadata().ok()?), file, layout)))
            .map(|(stamp, file, layout)| (file, layout, stamp));
        Some(Image { stamp, layout, used: 0, tables: Lazy::Unread, names: Lazy::Unread, file, debug })
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

    pub(crate) fn table_bytes(&self) -> u64 {
        self.layout.as_ref().map_or(0, Tables::size_in)
    }

    pub(crate) fn read_tables(&mut self, most: u64) {
        let fits = self.table_bytes() <= most && !self.is_overwritten();
        let layout = self.layout.as_ref().filter(|_| fits);
        self.tables = Lazy::from(layout.and_then(|layout| Tables::read(layout, &self.file)));
    }

    pub(crate) fn name_bytes(&self, most: u64) -> u64 {
        let size = |layout: &Layout| {
            let debug = if layout.debug_bytes <= most { layout.debug_bytes } else { 0 };
            layout.symbol_bytes.saturating_add(debug)
        };
        let debug = self.debug.as_ref().map_or(0, |(_, layout, _)| size(layout));
        self.layout.as_ref().map_or(0, size).saturating_add(debug)
    }

    pub(crate) fn read_names(&mut self, most: u64) {
        let fits = |layout: &&Layout| layout.symbol_bytes <= most && layout.debug_bytes <= most;
        let has_symbols = |layout: &&Layout| layout.symbol_bytes <= most;
        let layout = self.layout.as_ref().filter(has_symbols).filter(|_| !self.is_overwritten());
        let debug = self.debug.as_ref().filter(|(_, layout, _)| fits(&layout)).map(|(file, ..)| file);
        self.names = Lazy::from(layout.map(|layout| {
            let has_lines = layout.has_debug_info && fits(&layout);
            Names::new(&self.file, has_lines, debug)
        }));
    }
}
