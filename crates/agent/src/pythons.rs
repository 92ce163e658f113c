//! The Python interpreters of traced processes: found once each, told to the kernel, and opened for those that read them
//! from outside where the kernel could not.

use crate::ended::Ended;
use crate::runtime::Runtime;
use gpuwhy_model::{Batch, ProcessEventKind, RawCode};
use gpuwhy_probes::Engine;
use gpuwhy_python::{Interpreter, Thread, find};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Processes remembered as having no interpreter, so that nobody looks again.
const MAX_WITHOUT_PYTHON: usize = 4_096;
/// Processes whose interpreter is being loaded.
const MAX_STARTING: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Pythons {
    processes: HashMap<u32, Python>,
    /// What a process ran before its last exec: stacks from then may still come.
    replaced: HashMap<u32, Python>,
    /// Processes that were looked at and have none.
    without: HashSet<u32>,
    /// Program files whose processes have none, by device and inode.
    plain: HashSet<(u64, u64)>,
    /// Targets that mapped an interpreter which cannot be read yet.
    starting: HashSet<u32>,
    /// Processes that ended, whose code objects are still remembered.
    forgotten: Vec<u32>,
    ended: Ended,
    /// What could not be read, in sentences.
    troubles: Vec<String>,
    /// The processes they are about: once each.
    troubled: HashSet<u32>,
}

#[derive(Debug)]
struct Python {
    /// When it was looked for: a program that was started before that is the one it runs.
    looked_ns: u64,
    runtime: Arc<Runtime>,
    /// Nothing until the interpreter has made it.
    gil: Option<u64>,
}

impl Pythons {
    /// Follows processes as they start, become another program and end.
    pub(crate) fn follow(&mut self, batch: &Batch, engine: &Engine) {
        for pid in self.ended.pass() {
            self.forget(pid, engine);
        }
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Exec => {
                    self.ended.remove(event.pid);
                    let known = self.processes.get(&event.pid);
                    if known.is_none_or(|python| python.looked_ns <= event.time_ns) {
                        self.replace(event.pid, engine);
                    }
                }
                // By its first call a program has loaded what it needs.
                ProcessEventKind::Seen => {
                    self.see(event.pid, engine);
                    self.remember_without(event.pid);
                }
                ProcessEventKind::Fork => self.inherit(event.pid, event.child),
                ProcessEventKind::Exit => self.ended.add(event.pid),
                ProcessEventKind::Thread | ProcessEventKind::ThreadExit => {}
            }
        }
        // One that was still being loaded when it was last looked at; its first call, if it makes any, may be far.
        for wait in &batch.wait_events {
            if self.starting.contains(&wait.pid) {
                self.see_early(wait.pid, engine);
            }
        }
        for stack in batch.raw_stacks.iter().filter(|stack| stack.python_cut) {
            self.trouble(stack.pid, "its list of threads cannot be read to its end");
        }
    }

    /// A target maps a file. One that is an interpreter's is looked at at once: the program may make its first call, and
    /// end, before anything else tells of it.
    pub(crate) fn see_mapped(&mut self, pid: u32, path: &str, engine: &Engine) {
        let is_interpreter = is_interpreter(path);
        if !(is_interpreter || self.starting.contains(&pid)) || self.processes.contains_key(&pid) {
            return;
        }
        if self.starting.len() >= MAX_STARTING {
            self.starting.clear();
        }
        self.starting.insert(pid);
        self.see_early(pid, engine);
    }

    /// Looks while it is being loaded: what cannot be read then is no trouble yet.
    fn see_early(&mut self, pid: u32, engine: &Engine) {
        if !self.processes.contains_key(&pid) {
            let looked_ns = engine.now_ns();
            let Ok(Some(interpreter)) = find(pid) else { return };
            self.insert(pid, looked_ns, interpreter);
        }
        self.emit(pid, engine);
    }

    /// Looks for the interpreter of a process, unless it is known; its lock may have come since.
    pub(crate) fn see(&mut self, pid: u32, engine: &Engine) {
        if self.without.contains(&pid) {
            return;
        }
        if !self.processes.contains_key(&pid) {
            let looked_ns = engine.now_ns();
            // A program that has none is started by the thousand sometimes.
            let program = program_of(pid);
            if program.is_some_and(|program| self.plain.contains(&program)) {
                return;
            }
            match find(pid) {
                Ok(Some(interpreter)) => self.insert(pid, looked_ns, interpreter),
                Ok(None) => {
                    if self.plain.len() >= MAX_WITHOUT_PYTHON {
                        self.plain.clear();
                    }
                    self.plain.extend(program);
                }
                // One that is gone already is no trouble.
                Err(_) if !gpuwhy_host::exists(pid) => {}
                Err(error) => {
                    self.remember_without(pid);
                    self.trouble(pid, error);
                }
            }
        }
        self.emit(pid, engine);
    }

    /// Another program runs in the process.
    fn replace(&mut self, pid: u32, engine: &Engine) {
        self.troubled.remove(&pid);
        self.without.remove(&pid);
        self.starting.remove(&pid);
        if let Some(python) = self.processes.remove(&pid) {
            engine.forget_python(pid);
            self.replaced.insert(pid, python);
        }
        self.see_early(pid, engine);
    }

    /// What a process ran at a time. The kernel reads frames only after it was told how, so older ones are not of what it
    /// runs now.
    pub(crate) fn at(&self, pid: u32, time_ns: u64) -> Option<Arc<Runtime>> {
        let now = self.processes.get(&pid).filter(|python| python.looked_ns <= time_ns);
        Some(Arc::clone(&now.or_else(|| self.replaced.get(&pid))?.runtime))
    }

    fn insert(&mut self, pid: u32, looked_ns: u64, interpreter: Interpreter) {
        self.starting.remove(&pid);
        let runtime = Arc::new(Runtime::open(pid, interpreter));
        self.processes.insert(pid, Python { looked_ns, runtime, gil: None });
    }

    /// Tells the kernel, until all of it is known.
    fn emit(&mut self, pid: u32, engine: &Engine) {
        let Some(python) = self.processes.get_mut(&pid) else { return };
        if python.gil.is_none() {
            let runtime = Arc::clone(&python.runtime);
            python.gil = gpuwhy_confine::parse(move || runtime.gil_address()).flatten();
            let reported = engine.add_python(pid, &python.runtime.interpreter, python.gil.unwrap_or(0));
            if let Err(error) = reported {
                self.trouble(pid, error);
            }
        }
    }

    fn remember_without(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        if self.without.len() >= MAX_WITHOUT_PYTHON {
            self.without.clear();
        }
        self.without.insert(pid);
    }

    /// A child has its parent's memory; the kernel has copied its own entry.
    fn inherit(&mut self, parent: u32, child: u32) {
        let inherited = self.processes.get(&parent).map(|python| Python {
            looked_ns: python.looked_ns,
            runtime: Arc::new(Runtime::open(child, python.runtime.interpreter.clone())),
            gil: python.gil,
        });
        self.without.remove(&child);
        self.ended.remove(child);
        if let Some(python) = inherited {
            self.processes.insert(child, python);
        }
    }

    fn forget(&mut self, pid: u32, engine: &Engine) {
        self.troubled.remove(&pid);
        self.without.remove(&pid);
        self.starting.remove(&pid);
        let replaced = self.replaced.remove(&pid);
        if self.processes.remove(&pid).or(replaced).is_some() {
            engine.forget_python(pid);
            self.forgotten.push(pid);
        }
    }

    /// Its stacks have native frames only.
    fn trouble(&mut self, pid: u32, why: impl Display) {
        if self.troubled.insert(pid) {
            self.troubles.push(format!("process {pid}: {why}"));
        }
    }

    /// What could not be read since the last time.
    pub(crate) fn troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// Processes whose code objects are to be forgotten, and code objects that came, with what their processes ran.
    pub(crate) fn take_codes(&mut self, batch: &mut Batch) -> (Vec<u32>, Vec<(RawCode, Arc<Runtime>)>) {
        let codes = std::mem::take(&mut batch.raw_codes).into_iter();
        let codes = codes.filter_map(|code| Some((self.at(code.pid, code.time_ns)?, code)));
        let codes = codes.map(|(runtime, code)| (code, runtime)).collect();
        (std::mem::take(&mut self.forgotten), codes)
    }

    pub(crate) fn are_known(&self) -> bool {
        !self.processes.is_empty()
    }

    /// How the frames of a thread are read. Nothing where its process is not known to have an interpreter.
    pub(crate) fn thread(&self, pid: u32, tid: u32, thread_pointer: u64) -> Option<(Arc<Runtime>, Thread)> {
        let runtime = &self.processes.get(&pid)?.runtime;
        runtime.has_memory().then_some(())?;
        let thread = Thread::of(pid, tid)?;
        let fs_base = cfg!(target_arch = "x86_64").then_some(thread_pointer);
        Some((Arc::clone(runtime), Thread { fs_base, ..thread }))
    }
}

fn is_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("python3") || name.starts_with("libpython3")
}

fn program_of(pid: u32) -> Option<(u64, u64)> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}
