//! The memory of a process that runs Python. An input is the version, flags, the address of `_PyRuntime`, a thread's id, and the
//! memory from [`BASE`] on.

use super::Input;
use crate::Target;
use gpuwhy_python::{
    Memory, Thread, Version, decode_text, fuzz, gil_address, gil_holder, line_at, read_code, stack,
};
use std::cell::Cell;

pub(crate) const TARGET: Target = Target {
    name: "python_memory",
    about: "interpreters, thread states, frames, code objects, texts, line tables and the GIL in a process's memory (python)",
    run,
    words: &["xdebugpy"],
    runs: 30_000,
    most_bytes: 32 << 10,
};

/// Below it nothing can be read, as in any process.
pub(crate) const BASE: u64 = 0x1000;
/// The memory comes again behind its end: every pointer leads somewhere, most of them in circles.
pub(crate) const ENDLESS: u8 = 2;
const FREE_THREADED: u8 = 1;
const BY_POINTER: u8 = 4;
/// The memory is a line table.
const LINES: u8 = 8;
/// Each is a system call of the agent.
const MAX_READS: u32 = 1_000_000;
const FRAMES: usize = 64;

struct Image<'a> {
    bytes: &'a [u8],
    endless: bool,
    reads: Cell<u32>,
}

impl Memory for Image<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() <= MAX_READS, "more than {MAX_READS} reads");
        let Some(offset) = address.checked_sub(BASE).and_then(|offset| usize::try_from(offset).ok()) else {
            return false;
        };
        if self.endless && !self.bytes.is_empty() && address.checked_add(into.len() as u64).is_some() {
            let from = self.bytes.iter().cycle().skip(offset % self.bytes.len());
            into.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            return true;
        }
        let end = offset.checked_add(into.len());
        match end.and_then(|end| self.bytes.get(offset..end)) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (minor, flags) = (9 + input.byte() % 6, input.byte());
    let (runtime, native) = (u64::from(input.u16()), input.u32());
    let version = Version { major: 3, minor, micro: 0, free_threaded: flags & FREE_THREADED != 0 };
    let memory = Image { bytes: input.0, endless: flags & ENDLESS != 0, reads: Cell::new(0) };
    if flags & LINES != 0 {
        for instr in (0..64).chain([native, u32::MAX]) {
            line_at(&version, native, memory.bytes, instr);
        }
        return;
    }
    let Some(interpreter) = fuzz::interpreter(&memory, runtime, Some(version)) else { return };
    gil_address(&memory, &interpreter);
    gil_holder(&memory, &interpreter);
    decode_text(&interpreter.layout, native, u64::from(native), memory.bytes);
    let thread = Thread { native, fs_base: (flags & BY_POINTER != 0).then_some(u64::from(native)) };
    let frames = stack(&memory, &interpreter, thread, FRAMES).unwrap_or_default();
    assert!(frames.len() <= FRAMES);
    for frame in frames {
        if let Some(code) = read_code(&memory, &interpreter, frame.code) {
            line_at(&interpreter.version, code.first_line, &code.linetable, frame.instr);
        }
    }
}
