//! A Python interpreter and the memory of its process: opened by who may, read in the thread that may nothing else.

use crate::names::Ran;
use crate::stacks::MAX_FRAMES;
use gpuwhy_model::{Frame, FrameKind};
use gpuwhy_python::{
    Code, Interpreter, ProcessMemory, RawFrame, Thread, gil_address, line_at, read_code, stack,
};

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) interpreter: Interpreter,
    /// Nothing where it could not be opened.
    memory: Option<ProcessMemory>,
}

impl Runtime {
    pub(crate) fn open(pid: u32, interpreter: Interpreter) -> Runtime {
        let memory = ProcessMemory::open(pid).ok();
        let memory = memory.map(|memory| memory.fetching(interpreter.on_disk.clone()));
        Runtime { interpreter, memory }
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn gil_address(&self) -> Option<u64> {
        gil_address(self.memory.as_ref()?, &self.interpreter)
    }

    pub(crate) fn code(&self, address: u64) -> Option<Code> {
        read_code(self.memory.as_ref()?, &self.interpreter, address)
    }

    pub(crate) fn line(&self, code: &Code, instruction: u32) -> Option<u32> {
        line_at(&self.interpreter.version, code.first_line, &code.linetable, instruction)
    }

    /// What a thread runs, innermost first.
    pub(crate) fn frames(&self, thread: Thread) -> Vec<Ran> {
        let frames =
            self.memory.as_ref().and_then(|memory| stack(memory, &self.interpreter, thread, MAX_FRAMES).ok());
        let ran = |frame: &RawFrame| Ran { function: self.frame(frame), entry: frame.entry, foot: None };
        frames.iter().flatten().map(ran).collect()
    }

    fn frame(&self, raw: &RawFrame) -> Frame {
        let code = self.code(raw.code);
        let line = code.as_ref().and_then(|code| self.line(code, raw.instr));
        let (function, file) = code.map(|code| (code.name, code.filename)).unzip();
        Frame { kind: FrameKind::Python, function, file, line, ..Frame::default() }
    }
}
