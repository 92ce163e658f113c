//! The Python interpreters of traced processes: found once each, told to the kernel, and read from outside where the
//! kernel could not.

use crate::ended::Ended;
use crate::names::Ran;
use crate::stacks::MOST_FRAMES;
use gpuwhy_model::{Batch, Frame, FrameKind, ProcessEventKind, RawCode};
use gpuwhy_probes::Engine;
use gpuwhy_python::{
    Code, Interpreter, ProcessMemory, RawFrame, Thread, decode_text, find, gil_address, line_at, read_code,
    stack,
};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;

/// Code objects remembered of all processes; beyond it all are forgotten, and read anew where their process lives.
const MOST_CODES: usize = 65_536;
/// Processes remembered as having no interpreter, so that nobody looks again.
const MOST_WITHOUT: usize = 4_096;
/// Processes whose interpreter is being loaded.
const MOST_STARTING: usize = 4_096;

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
    /// By process and the kernel's number of the code.
    codes: HashMap<(u32, u64), Option<Code>>,
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
    interpreter: Interpreter,
    /// Nothing until the interpreter has made it.
    gil: Option<u64>,
    memory: Option<ProcessMemory>,
}

impl Python {
    fn frame(&self, memory: &ProcessMemory, raw: &RawFrame) -> Frame {
        let code = read_code(memory, &self.interpreter, raw.code);
        let line = code
            .as_ref()
            .and_then(|code| line_at(&self.interpreter.version, code.first_line, &code.linetable, raw.instr));
        let (function, file) = code.map(|code| (code.name, code.filename)).unzip();
        Frame { kind: FrameKind::Python, function, file, line, ..Frame::default() }
    }
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
                    self.meet(event.pid, engine);
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
                self.meet_early(wait.pid, engine);
            }
        }
        for code in &batch.raw_codes {
            self.take_code(code);
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
        if self.starting.len() >= MOST_STARTING {
            self.starting.clear();
        }
        self.starting.insert(pid);
        self.meet_early(pid, engine);
    }

    /// Looks while it is being loaded: what cannot be read then is no trouble yet.
    fn meet_early(&mut self, pid: u32, engine: &Engine) {
        if !self.processes.contains_key(&pid) {
            let looked_ns = engine.now_ns();
            let Ok(Some(interpreter)) = find(pid) else { return };
            self.insert(pid, looked_ns, interpreter);
        }
        self.tell(pid, engine);
    }

    /// Looks for the interpreter of a process, unless it is known; its lock may have come since.
    pub(crate) fn meet(&mut self, pid: u32, engine: &Engine) {
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
                    if self.plain.len() >= MOST_WITHOUT {
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
        self.tell(pid, engine);
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
        self.meet_early(pid, engine);
    }

    /// What a process ran at a time. The kernel reads frames only after it was told how, so older ones are not of what it
    /// runs now.
    fn at(&self, pid: u32, time_ns: u64) -> Option<&Python> {
        let now = self.processes.get(&pid).filter(|python| python.looked_ns <= time_ns);
        now.or_else(|| self.replaced.get(&pid))
    }

    fn insert(&mut self, pid: u32, looked_ns: u64, interpreter: Interpreter) {
        self.starting.remove(&pid);
        let memory = ProcessMemory::open(pid).ok();
        self.processes.insert(pid, Python { looked_ns, interpreter, gil: None, memory });
    }

    /// Tells the kernel, until all of it is known.
    fn tell(&mut self, pid: u32, engine: &Engine) {
        let Some(python) = self.processes.get_mut(&pid) else { return };
        if python.gil.is_none() {
            python.gil = python.memory.as_ref().and_then(|memory| gil_address(memory, &python.interpreter));
            let told = engine.add_python(pid, &python.interpreter, python.gil.unwrap_or(0));
            if let Err(error) = told {
                self.trouble(pid, error);
            }
        }
    }

    fn remember_without(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        if self.without.len() >= MOST_WITHOUT {
            self.without.clear();
        }
        self.without.insert(pid);
    }

    /// A child has its parent's memory; the kernel has copied its own entry.
    fn inherit(&mut self, parent: u32, child: u32) {
        let inherited = self.processes.get(&parent).map(|python| Python {
            looked_ns: python.looked_ns,
            interpreter: python.interpreter.clone(),
            gil: python.gil,
            memory: ProcessMemory::open(child).ok(),
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
            self.codes.retain(|(of, _), _| *of != pid);
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

    fn take_code(&mut self, raw: &RawCode) {
        let Some(python) = self.at(raw.pid, raw.time_ns) else { return };
        // One that did not fit into its record is read whole.
        let whole = match raw.lines_bytes > raw.lines.len() || raw.lines_bytes == 0 {
            true => python.memory.as_ref().and_then(|m| read_code(m, &python.interpreter, raw.address)),
            false => None,
        };
        let layout = &python.interpreter.layout;
        let text = |text: &gpuwhy_model::RawText| decode_text(layout, text.state, text.length, &text.data);
        let code = whole.unwrap_or_else(|| Code {
            filename: text(&raw.file),
            name: text(&raw.name),
            first_line: raw.first_line,
            linetable: raw.lines.clone(),
        });
        self.remember((raw.pid, raw.code), Some(code));
    }

    fn remember(&mut self, key: (u32, u64), code: Option<Code>) {
        if self.codes.len() >= MOST_CODES {
            self.codes.clear();
        }
        self.codes.insert(key, code);
    }

    pub(crate) fn are_known(&self) -> bool {
        !self.processes.is_empty()
    }

    /// The frames of a thread in a call or in a wait, innermost first, read from outside; none of a thread that runs no Python. Nothing
    /// where its process is not known to have an interpreter.
    pub(crate) fn frames_in(&self, pid: u32, tid: u32, thread_pointer: u64) -> Option<Vec<Frame>> {
        let ran = self.ran_in(pid, tid, thread_pointer)?;
        Some(ran.into_iter().map(|ran| ran.function).collect())
    }

    /// The same, to be merged with native frames.
    pub(crate) fn ran_in(&self, pid: u32, tid: u32, thread_pointer: u64) -> Option<Vec<Ran>> {
        let python = self.processes.get(&pid)?;
        let memory = python.memory.as_ref()?;
        let thread = Thread::of(pid, tid)?;
        let fs_base = cfg!(target_arch = "x86_64").then_some(thread_pointer);
        let thread = Thread { fs_base, ..thread };
        let frames = stack(memory, &python.interpreter, thread, MOST_FRAMES).unwrap_or_default();
        let ran =
            |frame: &RawFrame| Ran { function: python.frame(memory, frame), entry: frame.entry, foot: None };
        Some(frames.iter().map(ran).collect())
    }

    /// File, function and line of a frame. A code object whose record got lost is read from the process.
    pub(crate) fn line(
        &mut self,
        pid: u32,
        time_ns: u64,
        frame: &gpuwhy_model::PythonFrame,
    ) -> Option<(String, String, Option<u32>)> {
        let key = (pid, frame.code);
        if !self.codes.contains_key(&key) {
            let read = self
                .at(pid, time_ns)
                .and_then(|python| read_code(python.memory.as_ref()?, &python.interpreter, frame.address));
            self.remember(key, read);
        }
        let version = &self.at(pid, time_ns)?.interpreter.version;
        let code = self.codes.get(&key)?.as_ref()?;
        let line = line_at(version, code.first_line, &code.linetable, frame.instr);
        Some((code.filename.clone(), code.name.clone(), line))
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
