//! Which thread states are a thread's.

use crate::memory::{read_pointer, read_u32, read_u64};
use crate::{Interpreter, Memory};
use std::fs;

/// Lists that are longer are no lists: the process changed while it was read.
const MAX_INTERPRETERS: usize = 4096;
const MAX_THREADS: usize = 65536;
/// States of one thread: it has one for each interpreter it runs. Each may have a stack of its own to be read.
const MAX_STATES: usize = 64;

/// Where the C library's `struct pthread`, which `pthread_self()` points to, has the thread's id: glibc, then musl.
#[cfg(target_arch = "aarch64")]
const PTHREAD_TID: [u64; 1] = [208];
#[cfg(not(target_arch = "aarch64"))]
const PTHREAD_TID: [u64; 2] = [720, 48];

/// A thread of the process an interpreter is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its id in its own pid namespace.
    pub native: u32,
    /// What `pthread_self()` returns there, where known: the fs base on x86-64. It decides then.
    pub fs_base: Option<u64>,
}

impl Thread {
    /// By its id here; none if it is gone.
    pub fn of(pid: u32, tid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let native = ids.and_then(|ids| ids.split_ascii_whitespace().last()?.parse().ok());
        Some(Self { native: native.unwrap_or(tid), fs_base: None })
    }
}

/// The interpreters of a process, newest first; the main one is the last.
pub(crate) fn interpreters(memory: &impl Memory, interpreter: &Interpreter) -> Vec<u64> {
    let layout = &interpreter.layout;
    let head = read_pointer(memory, interpreter.runtime + u64::from(layout.interpreters_head));
    std::iter::successors(head, |state| read_pointer(memory, state + u64::from(layout.interp_next)))
        .take(MAX_INTERPRETERS)
        .collect()
}

/// The thread states of one OS thread: one for each interpreter it has run.
pub(crate) fn states(memory: &impl Memory, interpreter: &Interpreter, thread: Thread) -> Vec<u64> {
    let layout = &interpreter.layout;
    interpreters(memory, interpreter)
        .into_iter()
        .flat_map(|state| {
            let head = read_pointer(memory, state + u64::from(layout.interp_threads_head));
            std::iter::successors(head, |state| read_pointer(memory, state + u64::from(layout.tstate_next)))
        })
        .take(MAX_THREADS)
        .filter(|state| is_of(memory, interpreter, *state, thread))
        .take(MAX_STATES)
        .collect()
}

fn is_of(memory: &impl Memory, interpreter: &Interpreter, state: u64, thread: Thread) -> bool {
    match thread.fs_base {
        Some(base) => read_u64(memory, state + u64::from(interpreter.layout.tstate_thread_id)) == Some(base),
        None => native_ids(memory, interpreter, state).any(|id| id == thread.native),
    }
}

/// The id of a thread state's thread, as the interpreter has it, then as the C library may have it: 3.9 and 3.10 keep
/// none, and after a fork that Python did not make it is still the parent's.
pub(crate) fn native_ids<'a>(
    memory: &'a impl Memory,
    interpreter: &Interpreter,
    state: u64,
) -> impl Iterator<Item = u32> + 'a {
    let kept = interpreter.layout.tstate_native_thread_id;
    let kept = (kept != 0).then(|| read_u64(memory, state + u64::from(kept))).flatten();
    let pthread = read_pointer(memory, state + u64::from(interpreter.layout.tstate_thread_id));
    let libc = pthread.into_iter().flat_map(|pthread| PTHREAD_TID.map(|offset| pthread + offset));
    kept.into_iter()
        .filter_map(|id| u32::try_from(id).ok())
        .chain(libc.filter_map(|address| read_u32(memory, address)))
        .filter(|id| *id != 0)
}
