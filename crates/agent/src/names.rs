//! Names for stacks, found in a thread of their own: the first look into a large library takes a while, and nothing else
//! may wait for it.

use crate::stacks::MOST_FRAMES;
use gpuwhy_model::{Frame, FrameKind, Stack};
use gpuwhy_symbols::{Limits, Symbols};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The function that runs Python code: one of it is on the native stack for each run.
const EVAL_LOOP: &str = "_PyEval_EvalFrameDefault";
/// Stacks that wait for names; those beyond are stored as addresses.
const MOST_WAITING: usize = 4_096;
/// A trace that ends waits so long for the last names.
const PATIENCE: Duration = Duration::from_millis(600);

/// A stack without names of its native frames.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) stack: Stack,
    /// Python's frames, and which of them are the outermost of a run of the eval loop.
    pub(crate) python: Vec<(Frame, bool)>,
}

enum Request {
    Meet(u32),
    Inherit(u32, u32),
    Forget(u32),
    Name(Unnamed),
}

#[derive(Debug)]
pub(crate) struct Names {
    requests: Option<Sender<Request>>,
    named: Receiver<Stack>,
    /// As they are, should their names not come.
    waiting: HashMap<i64, Stack>,
    done: Vec<Stack>,
}

impl Names {
    pub(crate) fn start() -> Self {
        let (requests, inbox) = channel();
        let (outbox, named) = channel();
        let thread = std::thread::Builder::new().name("gpuwhy-names".into());
        // Without the thread, stacks are stored as addresses.
        let requests = thread.spawn(move || run(&inbox, &outbox)).ok().map(|_| requests);
        Names { requests, named, waiting: HashMap::new(), done: Vec::new() }
    }

    /// To be told early: what a process executes is opened while it lives.
    pub(crate) fn meet(&self, pid: u32) {
        self.send(Request::Meet(pid));
    }

    /// A child has its parent's mappings.
    pub(crate) fn inherit(&self, parent: u32, child: u32) {
        self.send(Request::Inherit(parent, child));
    }

    pub(crate) fn forget(&self, pid: u32) {
        self.send(Request::Forget(pid));
    }

    pub(crate) fn ask(&mut self, unnamed: Unnamed) {
        let mut plain = unnamed.stack.clone();
        plain.frames = unnamed.python.iter().map(|(frame, _)| frame.clone()).collect();
        if self.waiting.len() >= MOST_WAITING || self.requests.is_none() {
            self.done.push(plain);
            return;
        }
        self.waiting.insert(plain.stack_id, plain);
        self.send(Request::Name(unnamed));
    }

    fn send(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // A thread that is gone answers nothing: its stacks are stored as they are in the end.
            let _ = requests.send(request);
        }
    }

    /// Those that are ready.
    pub(crate) fn take(&mut self) -> Vec<Stack> {
        let mut ready = std::mem::take(&mut self.done);
        ready.extend(self.named.try_iter());
        for stack in &ready {
            self.waiting.remove(&stack.stack_id);
        }
        ready
    }

    /// All of them: those that do not get ready in time as addresses.
    pub(crate) fn finish(&mut self) -> Vec<Stack> {
        let mut ready = self.take();
        self.requests = None;
        let until = Instant::now() + PATIENCE;
        while !self.waiting.is_empty() {
            match self.named.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(stack) => {
                    self.waiting.remove(&stack.stack_id);
                    ready.push(stack);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        ready.extend(self.waiting.drain().map(|(_, stack)| stack));
        ready
    }
}

fn run(inbox: &Receiver<Request>, outbox: &Sender<Stack>) {
    // Names can wait for the CPU, traced programs should not have to. Where it is refused, nothing changes.
    let _ = rustix::process::nice(10);
    let mut symbols = Symbols::new(Limits::default());
    let mut stacks: VecDeque<Unnamed> = VecDeque::new();
    loop {
        // Processes first: they may be gone soon.
        let next = match stacks.is_empty() {
            true => inbox.recv().ok(),
            false => inbox.try_recv().ok(),
        };
        match next {
            Some(Request::Meet(pid)) => symbols.meet(pid),
            Some(Request::Inherit(parent, child)) => symbols.inherit(parent, child),
            // Not before its stacks have their names.
            Some(Request::Forget(pid)) => {
                let (of_it, others): (Vec<_>, Vec<_>) =
                    stacks.drain(..).partition(|unnamed| unnamed.stack.pid == pid);
                stacks.extend(others);
                for unnamed in of_it {
                    let _ = outbox.send(name(&mut symbols, unnamed));
                }
                symbols.forget(pid);
            }
            Some(Request::Name(unnamed)) => stacks.push_back(unnamed),
            None => match stacks.pop_front() {
                Some(unnamed) => {
                    if outbox.send(name(&mut symbols, unnamed)).is_err() {
                        return;
                    }
                }
                None => return,
            },
        }
    }
}

fn name(symbols: &mut Symbols, unnamed: Unnamed) -> Stack {
    let Unnamed { mut stack, python } = unnamed;
    // The innermost one is a return address too: stacks are taken where a call returns to.
    let native = stack.addresses.iter().flat_map(|address| symbols.frames_at(stack.pid, *address, true));
    let native = native.map(|frame| Frame {
        kind: FrameKind::Native,
        function: frame.function,
        file: frame.file,
        line: frame.line,
        module: frame.module,
        address: frame.address,
        inlined: frame.inlined,
    });
    stack.frames = merge(native, python);
    stack
}

/// Each run of the eval loop gives way to the Python functions it ran. Python frames that no native one was found for
/// come last, as the native stack was cut; or, in a program without names, inside of what started Python.
fn merge(native: impl Iterator<Item = Frame>, python: Vec<(Frame, bool)>) -> Vec<Frame> {
    let mut python = python.into_iter().filter(|(frame, _)| !is_trampoline(frame));
    let mut merged = Vec::new();
    let mut more = true;
    let mut loops = 0;
    for frame in native {
        let runs_python = frame.function.as_deref().is_some_and(|name| {
            name == EVAL_LOOP || name.strip_prefix(EVAL_LOOP).is_some_and(|rest| rest.starts_with('.'))
        });
        // The loop's own parts, put into it by the compiler, are no run of their own.
        if !runs_python || frame.inlined || !more {
            merged.push(frame);
            continue;
        }
        loops += 1;
        let before = merged.len();
        loop {
            match python.next() {
                Some((function, entry)) => {
                    merged.push(function);
                    if entry {
                        break;
                    }
                }
                None => {
                    more = false;
                    break;
                }
            }
        }
        if merged.len() == before {
            merged.push(frame);
        }
    }
    let rest: Vec<Frame> = python.map(|(function, _)| function).collect();
    let place = if loops == 0 { merged.iter().rposition(starts_python) } else { None };
    let place = place.unwrap_or(merged.len());
    merged.splice(place..place, rest);
    // A stack that is too long loses native frames: the lines of the program are what is asked for first.
    let cut = merged.split_off(merged.len().min(MOST_FRAMES));
    merged.extend(cut.into_iter().filter(|frame| frame.kind == FrameKind::Python));
    merged
}

/// It is exported by every Python, and runs the outermost code of a program.
fn starts_python(frame: &Frame) -> bool {
    frame.function.as_deref() == Some("PyEval_EvalCode")
}

/// A frame the interpreter makes for itself: around a run of the loop (3.12), or to check what `__init__` returns once that
/// is hot (3.12 and newer), which has one text for file and name, and no line.
fn is_trampoline(frame: &Frame) -> bool {
    let is_init = frame.line.is_none() && frame.function.is_some() && frame.function == frame.file;
    is_init || frame.function.as_deref().is_some_and(|name| name.starts_with("<interpreter trampoline>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(name: &str) -> Frame {
        Frame { function: Some(name.into()), ..Frame::default() }
    }

    fn python(name: &str, entry: bool) -> (Frame, bool) {
        (Frame { kind: FrameKind::Python, function: Some(name.into()), ..Frame::default() }, entry)
    }

    fn names(frames: &[Frame]) -> Vec<&str> {
        frames.iter().filter_map(|frame| frame.function.as_deref()).collect()
    }

    #[test]
    fn python_functions_take_the_place_of_the_loop_that_ran_them() {
        let natives = ["cuLaunchKernel", "call_it", EVAL_LOOP, "map_next", EVAL_LOOP, "main"].map(native);
        let pythons = vec![
            python("inner", false),
            python("middle", true),
            python("outer", false),
            python("<module>", true),
        ];
        let merged = merge(natives.into_iter(), pythons);
        assert_eq!(
            names(&merged),
            ["cuLaunchKernel", "call_it", "inner", "middle", "map_next", "outer", "<module>", "main"]
        );
    }

    #[test]
    fn the_interpreters_own_frames_are_not_told() {
        let check =
            Frame { function: Some("__init__".into()), file: Some("__init__".into()), ..python("", false).0 };
        let frames = vec![python("Model.__init__", false), (check, false), python("make", true)];
        assert_eq!(names(&merge([native(EVAL_LOOP)].into_iter(), frames)), ["Model.__init__", "make"]);
    }

    #[test]
    fn a_long_stack_keeps_its_python_functions() {
        let natives =
            std::iter::repeat_n(native("call_it"), MOST_FRAMES).chain([native(EVAL_LOOP), native("main")]);
        let merged = merge(natives, vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged)[MOST_FRAMES..], ["inner", "outer"]);
    }

    #[test]
    fn what_finds_no_place_comes_last() {
        let merged =
            merge([native("cuLaunchKernel")].into_iter(), vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged), ["cuLaunchKernel", "inner", "outer"]);
        let natives = ["cuLaunchKernel", "PyEval_EvalCode", "main"].map(native);
        let merged = merge(natives.into_iter(), vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged), ["cuLaunchKernel", "inner", "outer", "PyEval_EvalCode", "main"]);
        let merged = merge([native(EVAL_LOOP), native("main")].into_iter(), Vec::new());
        assert_eq!(names(&merged), [EVAL_LOOP, "main"]);
    }
}
