//! Stacks read from outside, of threads that stand still: nothing in the kernel takes a stack where nothing happens.

use crate::names::Ran;
use crate::pythons::Pythons;
use crate::reader::Reader;
use crate::runtime::Runtime;
use gpuwhy_model::{BetweenCalls, Frame, ThreadRegisters};
use gpuwhy_proc::{ProcessMemory, look};
use gpuwhy_python::Thread;
use std::sync::Arc;

const PAGE: u64 = 4096;
/// Of a stack, so many pages are copied.
const MAX_PAGES: usize = 64;

/// A thread's stack, as it was copied.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) pid: u32,
    /// Nothing where the kernel cannot tell: then there are Python frames alone.
    pub(crate) registers: Option<ThreadRegisters>,
    /// From the stack pointer on.
    pub(crate) copied: Vec<u8>,
    pub(crate) python: Vec<Ran>,
}

/// Which thread, and where it has its own data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) thread_pointer: u64,
}

/// Nothing where neither kind of frames can be read.
pub(crate) fn read(
    target: Target,
    registers: Option<&ThreadRegisters>,
    pythons: &Pythons,
    reader: &Reader,
) -> Option<Outside> {
    let Target { pid, tid, thread_pointer } = target;
    let python = pythons
        .thread(pid, tid, thread_pointer)
        .and_then(|(runtime, thread)| reader.run(move |_| runtime.frames(thread)))
        .unwrap_or_default();
    let sp = registers.map(|registers| registers.sp);
    let copied = sp.and_then(|sp| look(pid, move || copy(pid, sp))).unwrap_or_default();
    let registers = registers.filter(|_| !copied.is_empty()).cloned();
    let is_any = registers.is_some() || !python.is_empty();
    is_any.then_some(Outside { pid, registers, copied, python })
}

/// The Python frames of each thread, innermost first; none of one that runs no Python, nothing where they cannot be read.
pub(crate) fn frames_of(
    threads: &[BetweenCalls],
    pythons: &Pythons,
    reader: &Reader,
) -> Vec<Option<Vec<Frame>>> {
    let thread = |seen: &BetweenCalls| pythons.thread(seen.pid, seen.tid, seen.thread_pointer);
    let found: Vec<Option<(Arc<Runtime>, Thread)>> = threads.iter().map(thread).collect();
    if found.iter().all(Option::is_none) {
        return vec![None; threads.len()];
    }
    let frames = |(runtime, thread): (Arc<Runtime>, Thread)| -> Vec<Frame> {
        runtime.frames(thread).into_iter().map(|ran| ran.function).collect()
    };
    let read = reader.run(move |_| found.into_iter().map(|found| found.map(frames)).collect());
    read.unwrap_or_else(|| vec![None; threads.len()])
}

/// Page by page, up to where the stack ends.
fn copy(pid: u32, sp: u64) -> Vec<u8> {
    let Ok(memory) = ProcessMemory::open(pid) else { return Vec::new() };
    let mut copied = Vec::new();
    let mut at = sp;
    for _ in 0..MAX_PAGES {
        let mut page = vec![0; (PAGE - at % PAGE) as usize];
        if !memory.read(at, &mut page) {
            break;
        }
        at += page.len() as u64;
        copied.extend(page);
    }
    copied
}
