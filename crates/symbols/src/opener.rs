//! Processes and their files, for a [`Symbols`](crate::Symbols) that may be in a thread which can open nothing: it asks,
//! and a thread that may opens what is asked for. What is in the files is not looked at here.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpuwhy_proc::{FileId, Inside, Mapping, Maps, TargetFile, look};

use crate::{maps, perf_map};

/// Processes of which it is remembered what was opened.
const MAX_AHEAD: usize = 4096;
/// Files opened ahead for one process.
const MAX_FILES: usize = 512;

/// When it started and which program it runs: a process id may be another's by now.
pub(crate) type Identity = (u64, (u64, u64));

/// What is to be opened.
#[derive(Debug)]
pub struct Question(Wanted);

#[derive(Debug)]
enum Wanted {
    /// With the map of its compiler, or without.
    Process(u32, bool),
    Mapped(u32, Vec<Mapping>),
    /// Debug information of each of several files, where it may be; first below the process's root, then below the host's.
    Debug(u32, Vec<Vec<String>>),
    PerfMap(u32),
}

/// What there was.
#[derive(Debug, Default)]
pub struct Answer {
    process: Option<(Maps, Option<Identity>)>,
    files: Vec<Option<File>>,
    debug: Vec<Vec<File>>,
    /// Files that were opened before they were asked for.
    mapped: Vec<(Mapping, Option<File>)>,
}

/// Opens what meeting a process takes before it is asked for: one answer is sooner there than several questions.
#[derive(Debug, Default)]
pub struct Ahead {
    /// What was opened already, by process.
    opened: HashMap<u32, HashSet<(u64, FileId)>>,
}

impl Ahead {
    pub fn open(&mut self, pid: u32) -> Answer {
        let mut answer = answer(Question(Wanted::Process(pid, true)));
        let Some((maps, _)) = &answer.process else { return answer };
        if self.opened.len() >= MAX_AHEAD {
            self.opened.clear();
        }
        let opened = self.opened.entry(pid).or_default();
        let new = maps::executable(maps).into_iter().filter(Mapping::is_file);
        let new = new.filter(|line| opened.insert((line.start, line.file))).take(MAX_FILES);
        let new: Vec<Mapping> = new.collect();
        let files = open_mapped(pid, new.clone());
        answer.mapped = new.into_iter().zip(files).collect();
        answer
    }

    /// A child has its parent's mappings.
    pub fn inherit(&mut self, parent: u32, child: u32) {
        if let Some(opened) = self.opened.get(&parent).cloned() {
            self.opened.insert(child, opened);
        }
    }

    pub fn forget(&mut self, pid: u32) {
        self.opened.remove(&pid);
    }
}

/// Looks and opens; to be called by a thread that may.
pub fn answer(question: Question) -> Answer {
    match question.0 {
        Wanted::Process(pid, with_map) => {
            let maps = Maps::of(pid).ok().filter(|maps| !maps.is_empty());
            let perf_map = with_map.then(|| open_perf_map(pid)).flatten();
            let process = maps.map(|maps| (maps, identity(pid)));
            Answer { process, ..files([perf_map].into_iter()) }
        }
        Wanted::Mapped(pid, mappings) => Answer { files: open_mapped(pid, mappings), ..Answer::default() },
        Wanted::Debug(pid, files_of) => {
            let count = files_of.len();
            let debug = look(pid, move || open_debug(pid, &files_of));
            let none = || (0..count).map(|_| Vec::new()).collect();
            Answer { debug: debug.unwrap_or_else(none), ..Answer::default() }
        }
        Wanted::PerfMap(pid) => files([open_perf_map(pid)].into_iter()),
    }
}

/// All of them at once: each look of its own would wake another thread.
fn open_mapped(pid: u32, mappings: Vec<Mapping>) -> Vec<Option<File>> {
    let count = mappings.len();
    let open = move |mapping: &Mapping| TargetFile::mapped(pid, mapping)?.into_file();
    let opened = look(pid, move || mappings.iter().map(open).collect::<Vec<_>>());
    opened.unwrap_or_else(|| (0..count).map(|_| None).collect())
}

fn open_perf_map(pid: u32) -> Option<File> {
    look(pid, move || perf_map::open(pid))?
}

fn open_debug(pid: u32, files_of: &[Vec<String>]) -> Vec<Vec<File>> {
    let root = Inside::of_process(pid);
    let host = Inside::of(Path::new("/"));
    let is_hosts = root.as_ref().zip(host.as_ref()).is_some_and(|(root, host)| root.is_same(host));
    let roots = [root, if is_hosts { None } else { host }];
    let open = |paths: &Vec<String>| {
        let in_roots = roots.iter().flatten().flat_map(|root| paths.iter().map(|path| root.open(path)));
        in_roots.flatten().collect()
    };
    files_of.iter().map(open).collect()
}

fn files(files: impl Iterator<Item = Option<File>>) -> Answer {
    Answer { files: files.collect(), ..Answer::default() }
}

fn identity(pid: u32) -> Option<Identity> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name, which may hold anything, ends with the last parenthesis; the start is field 22.
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    // One that has just ended has a start but no program; it is still the same.
    let program = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((started, (program.dev(), program.ino())))
}

/// Whom to ask.
pub(crate) struct Opener {
    ask: Box<dyn FnMut(Question) -> Answer>,
    /// Of the process that is being met.
    ahead: Answer,
}

impl fmt::Debug for Opener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl Opener {
    pub(crate) fn new(ask: impl FnMut(Question) -> Answer + 'static) -> Opener {
        Opener { ask: Box::new(ask), ahead: Answer::default() }
    }

    pub(crate) fn take_ahead(&mut self, answer: Answer) {
        self.ahead = answer;
    }

    /// What a process has mapped, which it is, and the map of its compiler; nothing where it has ended.
    pub(crate) fn process(
        &mut self,
        pid: u32,
        with_map: bool,
    ) -> Option<(Maps, Option<Identity>, Option<File>)> {
        let mut answer = match self.ahead.process.take() {
            Some(process) => Answer {
                process: Some(process),
                files: std::mem::take(&mut self.ahead.files),
                ..Answer::default()
            },
            None => (self.ask)(Question(Wanted::Process(pid, with_map))),
        };
        let (maps, identity) = answer.process?;
        Some((maps, identity, answer.files.pop().flatten()))
    }

    /// The files behind mappings, in their order.
    pub(crate) fn mapped(&mut self, pid: u32, mappings: Vec<Mapping>) -> Vec<Option<File>> {
        let mut files: Vec<Option<File>> = Vec::with_capacity(mappings.len());
        let mut missing = Vec::new();
        for mapping in mappings {
            let at = self.ahead.mapped.iter().position(|(line, _)| *line == mapping);
            match at.map(|at| self.ahead.mapped.swap_remove(at)) {
                Some((_, file)) => files.push(file),
                None => {
                    missing.push((files.len(), mapping));
                    files.push(None);
                }
            }
        }
        let (places, lines): (Vec<usize>, Vec<Mapping>) = missing.into_iter().unzip();
        if !lines.is_empty() {
            let asked = (self.ask)(Question(Wanted::Mapped(pid, lines))).files;
            for (place, file) in places.into_iter().zip(asked) {
                files[place] = file;
            }
        }
        files
    }

    /// For each of several files those at the paths where its debug information may be.
    pub(crate) fn debug(&mut self, pid: u32, paths: Vec<Vec<String>>) -> Vec<Vec<File>> {
        if paths.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        (self.ask)(Question(Wanted::Debug(pid, paths))).debug
    }

    pub(crate) fn perf_map(&mut self, pid: u32) -> Option<File> {
        (self.ask)(Question(Wanted::PerfMap(pid))).files.pop()?
    }
}
