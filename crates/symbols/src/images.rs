//! The files that are open, each once, whatever processes and containers run it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use gimli::UnwindContext;
use gpuwhy_proc::{Inside, Mapping, TargetFile};

use crate::image::{Content, Image, Lazy, Opened, Stamp};
use crate::limits::Limits;
use crate::names::Line;
use crate::tables::Tables;

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
            limits,
        }
    }

    /// The file behind a mapping.
    pub(crate) fn open(&mut self, pid: u32, line: &Mapping, root: Option<&Inside>) -> Option<ImageId> {
        let file = TargetFile::mapped(pid, line)?.into_file()?;
        let stamp = Stamp::of(&file.metadata().ok()?);
        if let Some(id) = self.by_stamp.get(&stamp).filter(|id| self.images.contains_key(id)) {
            return Some(*id);
        }
        Some(self.keep(Arc::new(Opened::open(file, &line.path, root)?)))
    }

    /// A file that another has opened.
    pub(crate) fn take(&mut self, opened: &Arc<Opened>) -> ImageId {
        let known = self.by_stamp.get(&opened.stamp).copied().filter(|id| self.images.contains_key(id));
        known.unwrap_or_else(|| self.keep(Arc::clone(opened)))
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

    /// The unwind tables of a file, and the interpreter for them.
    pub(crate) fn tables(&mut self, id: ImageId) -> Option<(&mut Tables, &mut UnwindContext<usize>)> {
        let most = self.limits.table_bytes;
        let image = self.touch(id)?;
        if image.tables.is_unread() {
            let bytes = image.table_bytes();
            let total = |images: &Images| sum(images, |image| image.tables.is_read(), Image::table_bytes);
            while bytes <= most && total(self).saturating_add(bytes) > most {
                let Some(oldest) = self.oldest(id, |image| image.tables.is_read()) else { break };
                oldest.tables = Lazy::Unread;
            }
            self.images.get_mut(&id)?.read_tables(most);
        }
        let tables = self.images.get_mut(&id)?.tables.get()?;
        Some((tables, &mut self.context))
    }

    /// The functions at an address of a file.
    pub(crate) fn lines_at(&mut self, id: ImageId, address: u64) -> Option<Rc<[Line]>> {
        let most = self.limits.symbol_bytes;
        let image = self.touch(id)?;
        if image.opened.is_overwritten() {
            image.names = Lazy::Nothing;
            return None;
        }
        if image.names.is_unread() {
            let bytes = image.name_bytes(most);
            let total =
                |images: &Images| sum(images, |image| image.names.is_read(), |image| image.name_bytes(most));
            while total(self).saturating_add(bytes) > most {
                let Some(oldest) = self.oldest(id, |image| image.names.is_read()) else { break };
                oldest.names = Lazy::Unread;
            }
            self.images.get_mut(&id)?.read_names(most);
        }
        Some(self.images.get_mut(&id)?.lines_at(address))
    }

    fn oldest(&mut self, but: ImageId, having: impl Fn(&Image) -> bool) -> Option<&mut Image> {
        let candidates = self.images.iter_mut().filter(|(id, image)| **id != but && having(image));
        candidates.min_by_key(|(_, image)| image.used).map(|(_, image)| image)
    }
}

fn sum(images: &Images, having: impl Fn(&Image) -> bool, bytes: impl Fn(&Image) -> u64) -> u64 {
    images.images.values().filter(|image| having(image)).map(bytes).fold(0, u64::saturating_add)
}
