//! The files that are open, each once, whatever processes and containers run it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::image::{Content, Image, Lazy, Opened, Stamp, Unsplit};
use crate::limits::Limits;
use crate::names::Line;
use crate::opener::Opener;
use crate::recent::Recent;
use crate::tables::Row;
use gimli::UnwindContext;

/// Of all files.
const MAX_ROWS: usize = 16_384;

/// Never used again for another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ImageId(u64);

pub(crate) struct Images {
    images: HashMap<ImageId, Image>,
    by_stamp: HashMap<Stamp, ImageId>,
    by_content: HashMap<Content, ImageId>,
    next: u64,
    turn: u64,
    /// For the interpreter of unwind tables: made once.
    pub(crate) context: UnwindContext<usize>,
    /// Nothing where the file's tables have none.
    rows: Recent<(ImageId, u64), Option<Rc<Row>>>,
    limits: Limits,
}

impl Images {
    pub(crate) fn new(limits: Limits) -> Images {
        Images {
            images: HashMap::new(),
            by_stamp: HashMap::new(),
            by_content: HashMap::new(),
            next: 0,
            turn: 0,
            context: UnwindContext::new(),
            rows: Recent::new(MAX_ROWS),
            limits,
        }
    }

    /// Files that a process has mapped from these paths. Debug files are found too, with one question: later the process
    /// and its root may be gone.
    pub(crate) fn open(
        &mut self,
        pid: u32,
        files: Vec<(&str, Option<File>)>,
        opener: &mut Opener,
    ) -> Vec<Option<ImageId>> {
        let (mut ids, mut read) = (HashMap::new(), HashMap::new());
        let stamps: Vec<Option<Stamp>> = files
            .into_iter()
            .map(|(path, file)| {
                let file = file?;
                let stamp = Stamp::of(&file.metadata().ok()?);
                if let Some(id) = self.known(&stamp) {
                    ids.insert(stamp, id);
                } else {
                    read.entry(stamp).or_insert_with(|| {
                        let file = Unsplit::read(file, stamp);
                        let candidates = file.candidates(path);
                        (file, candidates)
                    });
                }
                Some(stamp)
            })
            .collect();
        let (read, candidates): (Vec<Unsplit>, Vec<Vec<String>>) = read.into_values().unzip();
        let debug = opener.debug(pid, candidates);
        for (file, debug) in read.into_iter().zip(debug.into_iter().chain(std::iter::repeat_with(Vec::new))) {
            // One that makes room for the next is opened again when it is needed.
            ids.insert(file.stamp, self.keep(Arc::new(Opened::of(file, debug.into_iter()))));
        }
        stamps.into_iter().map(|stamp| ids.get(&stamp?).copied()).collect()
    }

    fn known(&self, stamp: &Stamp) -> Option<ImageId> {
        self.by_stamp.get(stamp).copied().filter(|id| self.images.contains_key(id))
    }

    /// A file that another has opened.
    pub(crate) fn take(&mut self, opened: &Arc<Opened>) -> ImageId {
        self.known(&opened.stamp).unwrap_or_else(|| self.keep(Arc::clone(opened)))
    }

    fn keep(&mut self, opened: Arc<Opened>) -> ImageId {
        let content = opened.content();
        if let Some(id) = content.as_ref().and_then(|content| self.by_content.get(content)).copied() {
            self.by_stamp.insert(opened.stamp, id);
            return id;
        }
        self.make_room();
        self.next += 1;
        let id = ImageId(self.next);
        self.by_stamp.insert(opened.stamp, id);
        if let Some(content) = content {
            self.by_content.insert(content, id);
        }
        self.turn += 1;
        self.images.insert(id, Image { used: self.turn, ..Image::new(opened) });
        id
    }

    fn make_room(&mut self) {
        if self.images.len() < self.limits.files.max(1) {
            return;
        }
        let oldest = self.images.iter().min_by_key(|(_, image)| image.used).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.drop_image(id);
        }
    }

    fn drop_image(&mut self, id: ImageId) {
        self.images.remove(&id);
        self.by_stamp.retain(|_, kept| *kept != id);
        self.by_content.retain(|_, kept| *kept != id);
    }

    /// Files of no process are closed, but the ones used last. Deleted ones always: they take disk space.
    pub(crate) fn drop_idle(&mut self, in_use: &HashSet<ImageId>) {
        let mut idle: Vec<(u64, ImageId, bool)> = self
            .images
            .iter()
            .filter(|(id, _)| !in_use.contains(id))
            .map(|(id, image)| (image.used, *id, image.opened.is_deleted()))
            .collect();
        idle.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        for (at, (_, id, deleted)) in idle.into_iter().enumerate() {
            if deleted || at >= self.limits.idle_files {
                self.drop_image(id);
            }
        }
    }

    pub(crate) fn contains(&self, id: ImageId) -> bool {
        self.images.contains_key(&id)
    }

    pub(crate) fn get(&self, id: ImageId) -> Option<&Image> {
        self.images.get(&id)
    }

    fn touch(&mut self, id: ImageId) -> Option<&mut Image> {
        self.turn += 1;
        let image = self.images.get_mut(&id)?;
        image.used = self.turn;
        Some(image)
    }

    /// How to go on from an address of a file; nothing where its tables do not tell.
    pub(crate) fn row(&mut self, id: ImageId, address: u64) -> Option<Rc<Row>> {
        let max = self.limits.table_bytes;
        let image = self.touch(id)?;
        if image.tables.is_unread() {
            image.read_tables(max);
            while self.images.values().map(Image::table_bytes).sum::<u64>() > max {
                let Some(oldest) = self.oldest(id, |image| image.table_bytes() > 0) else { break };
                oldest.tables = Lazy::Unread;
            }
        }
        if let Some(row) = self.rows.get(&(id, address)) {
            return row;
        }
        let row = self.images.get_mut(&id)?.row(address, &mut self.context).map(Rc::new);
        self.rows.insert((id, address), row.clone());
        row
    }

    /// The functions at an address of a file.
    pub(crate) fn lines_at(&mut self, id: ImageId, address: u64) -> Option<Rc<[Line]>> {
        let image = self.touch(id)?;
        image.named = Instant::now();
        if image.opened.is_overwritten() {
            image.names = Lazy::Nothing;
            return None;
        }
        if image.names.is_unread() {
            let limits = self.limits.clone();
            let bytes = self.images.get(&id)?.name_bytes(&limits);
            let held = |images: &Images| -> u64 {
                let named = images.images.values().filter(|image| image.names.is_read());
                named.map(|image| image.name_bytes(&limits)).sum()
            };
            while held(self).saturating_add(bytes) > limits.symbol_bytes {
                let Some(oldest) = self.oldest(id, |image| image.names.is_read()) else { break };
                oldest.names = Lazy::Unread;
            }
            self.images.get_mut(&id)?.read_names(&limits);
        }
        Some(self.images.get_mut(&id)?.lines_at(address))
    }

    /// Symbols and lines that nobody asked for lately.
    pub(crate) fn drop_names(&mut self) {
        let idle = |image: &Image| image.names.is_read() && image.named.elapsed() >= self.limits.names_idle;
        for image in self.images.values_mut().filter(|image| idle(image)) {
            image.names = Lazy::Unread;
        }
    }

    fn oldest(&mut self, but: ImageId, having: impl Fn(&Image) -> bool) -> Option<&mut Image> {
        let candidates = self.images.iter_mut().filter(|(id, image)| **id != but && having(image));
        candidates.min_by_key(|(_, image)| image.used).map(|(_, image)| image)
    }
}
