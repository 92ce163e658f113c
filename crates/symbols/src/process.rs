//! A process: what it executes, from when it was met until it is forgotten.

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use crate::image::Opened;
use crate::images::{ImageId, Images};
use crate::maps;
use crate::opener::{Identity, Opener};
use crate::perf_map::PerfMap;
use crate::vdso;

/// Mappings that are no more, kept for records from before.
const MAX_ENDED: usize = 4096;
/// Files opened at one question.
const OPENED_TOGETHER: usize = 32;

/// What is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file; which one is not known where it could not be opened.
    File(Option<ImageId>),
    Vdso,
    /// The trampoline that return probes put on the stack.
    Uprobes,
    /// Code made at run time.
    Anonymous,
}

#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) line: gpuwhy_proc::Mapping,
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
}

/// What a process executes, as it was met in one thread, for another one: the process may be gone by then.
#[derive(Debug)]
pub struct Seen {
    mappings: Vec<(Mapping, Option<Arc<Opened>>)>,
    perf_map: Option<Arc<File>>,
    identity: Option<Identity>,
}

#[derive(Default)]
pub(crate) struct Process {
    /// By address, without overlaps.
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) perf_map: PerfMap,
    pub(crate) used: u64,
    identity: Option<Identity>,
    read: Option<Instant>,
}

impl Process {
    /// Reads what is mapped now. If it has ended, what was known stays.
    pub(crate) fn see(&mut self, pid: u32, images: &mut Images, opener: &mut Opener) {
        self.read = Some(Instant::now());
        let Some((maps, identity, perf_map)) = opener.process(pid, !self.perf_map.is_open()) else { return };
        if identity.is_some() && self.identity.is_some() && identity != self.identity {
            self.mappings.clear();
            self.perf_map = PerfMap::default();
        }
        self.identity = identity.or(self.identity);
        let before = std::mem::take(&mut self.mappings);
        let lines = maps::executable(&maps);
        let mut new = Vec::new();
        let mut mappings = Vec::with_capacity(lines.len());
        for line in lines {
            let known = before.binary_search_by_key(&line.start, |mapping| mapping.line.start).ok();
            match known.map(|at| &before[at]).filter(|mapping| mapping.line == line) {
                Some(mapping) => mappings.push(mapping.clone()),
                None => new.push(line),
            }
        }
        mappings.extend(opened(pid, new, images, opener));
        mappings.sort_by_key(|mapping| mapping.line.start);
        self.mappings = with_gone(mappings, before);
        if self.mappings.iter().any(|mapping| mapping.may_be_jit(images)) {
            self.perf_map.read(pid, perf_map, opener);
        }
    }

    /// What was met of it, for another thread; nothing where nothing was.
    pub(crate) fn seen(&self, images: &Images) -> Option<Seen> {
        let opened = |mapping: &Mapping| match mapping.kind {
            Kind::File(Some(id)) => Some(Arc::clone(&images.get(id)?.opened)),
            _ => None,
        };
        let mappings: Vec<_> =
            self.mappings.iter().map(|mapping| (mapping.clone(), opened(mapping))).collect();
        (!mappings.is_empty()).then_some(Seen {
            mappings,
            perf_map: self.perf_map.file(),
            identity: self.identity,
        })
    }

    /// Takes over what another met.
    pub(crate) fn take(&mut self, seen: Seen, images: &mut Images) {
        self.read = Some(Instant::now());
        if self.identity != seen.identity {
            self.perf_map = PerfMap::default();
        }
        self.identity = seen.identity;
        let own = |(mapping, opened): (Mapping, Option<Arc<Opened>>)| match mapping.kind {
            Kind::File(_) => {
                Mapping { kind: Kind::File(opened.map(|opened| images.take(&opened))), ..mapping }
            }
            _ => mapping,
        };
        self.mappings = seen.mappings.into_iter().map(own).collect();
        if let Some(file) = seen.perf_map {
            self.perf_map.read_of(file);
        }
    }

    /// What a child of it has before it is looked at itself.
    pub(crate) fn of_child(&self) -> Process {
        Process { mappings: self.mappings.clone(), ..Process::default() }
    }

    /// Whether its mappings were not read for so long.
    pub(crate) fn is_stale(&self, after: std::time::Duration) -> bool {
        self.read.is_none_or(|read| read.elapsed() >= after)
    }

    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        let at = self.mappings.partition_point(|mapping| mapping.line.start <= address).checked_sub(1)?;
        (address < self.mappings[at].line.end).then_some(at)
    }
}

/// Mappings that were not known, with the files behind them.
fn opened(
    pid: u32,
    lines: Vec<gpuwhy_proc::Mapping>,
    images: &mut Images,
    opener: &mut Opener,
) -> Vec<Mapping> {
    let (mut of_files, others): (Vec<Mapping>, Vec<Mapping>) =
        lines.into_iter().map(Mapping::new).partition(|mapping| matches!(mapping.kind, Kind::File(_)));
    for some in of_files.chunks_mut(OPENED_TOGETHER) {
        let lines: Vec<gpuwhy_proc::Mapping> = some.iter().map(|mapping| mapping.line.clone()).collect();
        let files = opener.mapped(pid, lines);
        let files = some.iter().map(|mapping| mapping.line.path.as_str()).zip(files).collect();
        let ids = images.open(pid, files, opener);
        for (mapping, id) in some.iter_mut().zip(ids) {
            mapping.kind = Kind::File(id);
        }
    }
    of_files.extend(others);
    of_files
}

impl Mapping {
    /// Its file is opened later.
    fn new(line: gpuwhy_proc::Mapping) -> Mapping {
        let (kind, name) = match line.path.as_str() {
            vdso::NAME => (Kind::Vdso, vdso::NAME),
            "[uprobes]" => (Kind::Uprobes, "[uprobes]"),
            path if line.file.inode != 0 && !path.is_empty() => (Kind::File(None), path),
            path if path.starts_with('[') && path != "[heap]" && !path.starts_with("[anon") => {
                (Kind::Anonymous, path)
            }
            _ => (Kind::Anonymous, "[anon]"),
        };
        Mapping { kind, name: name.into(), line }
    }

    /// The address in the file, or in the memory, that its symbols are for.
    pub(crate) fn file_offset(&self, address: u64) -> u64 {
        (address - self.line.start).wrapping_add(self.line.offset)
    }

    fn may_be_jit(&self, images: &Images) -> bool {
        match self.kind {
            Kind::Anonymous => true,
            Kind::File(Some(id)) => images.get(id).is_some_and(|image| image.opened.layout.is_none()),
            _ => false,
        }
    }
}

/// The present mappings and those of before that nothing has taken the place of.
fn with_gone(now: Vec<Mapping>, before: Vec<Mapping>) -> Vec<Mapping> {
    let free = |mapping: &Mapping| {
        let at = now.partition_point(|present| present.line.end <= mapping.line.start);
        now.get(at).is_none_or(|present| present.line.start >= mapping.line.end)
    };
    let gone: Vec<Mapping> = before.into_iter().filter(free).take(MAX_ENDED).collect();
    let mut all = now;
    all.extend(gone);
    all.sort_by_key(|mapping| mapping.line.start);
    all
}
