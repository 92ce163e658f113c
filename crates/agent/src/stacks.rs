//! From stacks as the kernel took them to functions and lines: unwound, named, Python's frames in their place.

use crate::pythons::{BATCHES_AFTER_END, Pythons};
use gpuwhy_model::{Batch, Frame, FrameKind, ProcessEventKind, RawStack, Stack};
use gpuwhy_symbols::{Limits, Registers, Swapped, Symbols};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Frames kept of a stack.
const MOST_FRAMES: usize = 192;
/// Stacks remembered by key and by number; beyond it all are forgotten, and stored again when they come again.
const MOST_KNOWN: usize = 65_536;
/// The function that runs Python code: one of it is on the native stack for each run.
const EVAL_LOOP: &str = "_PyEval_EvalFrameDefault";

#[derive(Debug)]
pub(crate) struct Stacks {
    symbols: Symbols,
    /// The number of each stack the kernel has sent, by its key.
    by_key: HashMap<u64, i64>,
    /// Stacks that were unwound, by what their frame pointers show: those that were not copied are told by them.
    by_pointers: HashMap<u64, i64>,
    /// Those that are in the file.
    stored: HashSet<i64>,
    /// Processes that ended, and how many batches ago: records of theirs may still come.
    ended: Vec<(u32, u32)>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            symbols: Symbols::new(Limits::default()),
            by_key: HashMap::new(),
            by_pointers: HashMap::new(),
            stored: HashSet::new(),
            ended: Vec::new(),
        }
    }
}

impl Stacks {
    /// Gives each call the number of its stack, and the batch the stacks that are new.
    pub(crate) fn complete(&mut self, batch: &mut Batch, pythons: &mut Pythons) {
        self.follow(batch);
        for raw in std::mem::take(&mut batch.raw_stacks) {
            if self.by_key.len() >= MOST_KNOWN {
                self.by_key.clear();
                self.by_pointers.clear();
                self.stored.clear();
            }
            let shown = shown_by_pointers(&raw);
            if raw.copied.is_empty()
                && let Some(stack_id) = self.by_pointers.get(&shown)
            {
                self.by_key.insert(raw.key, *stack_id);
                continue;
            }
            let stack = self.make(&raw, pythons);
            if stack.complete {
                self.by_pointers.insert(shown, stack.stack_id);
            }
            self.by_key.insert(raw.key, stack.stack_id);
            if self.stored.insert(stack.stack_id) {
                batch.stacks.push(stack);
            }
        }
        batch.raw_codes.clear();
        let nccl = batch.nccl_calls.iter_mut().map(|call| &mut call.call);
        for call in batch.calls.iter_mut().chain(nccl) {
            if call.stack_key != 0 {
                call.stack_id = self.by_key.get(&call.stack_key).copied();
            }
        }
    }

    /// Opens what a process executes while it lives, and lets go of those that ended when their last records are through.
    fn follow(&mut self, batch: &Batch) {
        for (pid, age) in std::mem::take(&mut self.ended) {
            match age {
                0..BATCHES_AFTER_END => self.ended.push((pid, age + 1)),
                _ => self.symbols.forget(pid),
            }
        }
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Seen => self.symbols.meet(event.pid),
                ProcessEventKind::Exec => self.symbols.forget(event.pid),
                ProcessEventKind::Exit => self.ended.push((event.pid, 0)),
                _ => {}
            }
        }
    }

    fn make(&mut self, raw: &RawStack, pythons: &mut Pythons) -> Stack {
        let (addresses, complete) = self.unwind(raw);
        let python: Vec<(Frame, bool)> =
            raw.python.iter().map(|frame| (python_frame(raw.pid, frame, pythons), frame.entry)).collect();
        let native = self.symbols.frames(raw.pid, &addresses);
        let native = native.into_iter().flatten().map(|frame| Frame {
            kind: FrameKind::Native,
            function: frame.function,
            file: frame.file,
            line: frame.line,
            module: frame.module,
            address: frame.address,
            inlined: frame.inlined,
        });
        let frames = merge(native, python);
        let mut hasher = DefaultHasher::new();
        (raw.pid, &addresses).hash(&mut hasher);
        for frame in frames.iter().filter(|frame| frame.kind == FrameKind::Python) {
            (&frame.function, &frame.file, frame.line).hash(&mut hasher);
        }
        Stack { stack_id: hasher.finish() as i64, pid: raw.pid, addresses, frames, complete }
    }

    /// By the tables of the files the process runs; by frame pointers where the stack was not copied.
    fn unwind(&mut self, raw: &RawStack) -> (Vec<u64>, bool) {
        if raw.copied.is_empty() {
            return (raw.native.clone(), false);
        }
        let registers = Registers { ip: raw.ip, sp: raw.sp, bp: raw.bp };
        let swapped: Vec<Swapped> =
            raw.swapped.iter().map(|(at, original)| Swapped { at: *at, original: *original }).collect();
        let unwound = self.symbols.unwind(raw.pid, registers, &raw.copied, &swapped, MOST_FRAMES);
        match unwound.complete || unwound.addresses.len() >= raw.native.len() {
            true => (unwound.addresses, unwound.complete),
            false => (raw.native.clone(), false),
        }
    }
}

/// The same program at the same depth with the same frame pointers and lines is at the same place.
fn shown_by_pointers(raw: &RawStack) -> u64 {
    let mut hasher = DefaultHasher::new();
    (raw.pid, raw.ip, raw.sp, &raw.native).hash(&mut hasher);
    for frame in &raw.python {
        (frame.code, frame.instr).hash(&mut hasher);
    }
    hasher.finish()
}

fn python_frame(pid: u32, raw: &gpuwhy_model::PythonFrame, pythons: &mut Pythons) -> Frame {
    let (file, function, line) = match pythons.line(pid, raw) {
        Some((file, function, line)) => (Some(file), Some(function), line),
        None => (None, None, None),
    };
    Frame { kind: FrameKind::Python, function, file, line, ..Frame::default() }
}

/// Each run of the eval loop gives way to the Python functions it ran. Python frames that no native one was found for
/// come last: the native stack was cut, or its names are not known.
fn merge(native: impl Iterator<Item = Frame>, python: Vec<(Frame, bool)>) -> Vec<Frame> {
    let mut python = python.into_iter().filter(|(frame, _)| !is_trampoline(frame));
    let mut merged = Vec::new();
    let mut more = true;
    for frame in native {
        let runs_python = frame.function.as_deref().is_some_and(|name| {
            name == EVAL_LOOP || name.strip_prefix(EVAL_LOOP).is_some_and(|rest| rest.starts_with('.'))
        });
        // The loop's own parts, put into it by the compiler, are no run of their own.
        if !runs_python || frame.inlined || !more {
            merged.push(frame);
            continue;
        }
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
    merged.extend(python.map(|(function, _)| function));
    merged.truncate(MOST_FRAMES);
    merged
}

/// A frame the interpreter makes for itself (3.12).
fn is_trampoline(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| name.starts_with("<interpreter trampoline>"))
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
    fn what_finds_no_place_comes_last() {
        let merged =
            merge([native("cuLaunchKernel")].into_iter(), vec![python("inner", true), python("outer", true)]);
        assert_eq!(names(&merged), ["cuLaunchKernel", "inner", "outer"]);
        let merged = merge([native(EVAL_LOOP), native("main")].into_iter(), Vec::new());
        assert_eq!(names(&merged), [EVAL_LOOP, "main"]);
    }
}
