//! Who has the GIL.

use crate::memory::{read_pointer, read_u32};
use crate::thread::{interpreters, native_ids};
use crate::{Interpreter, Memory};

/// The thread state that holds the GIL, and its thread's id in its own pid namespace. From 3.12 on interpreters may
/// have GILs of their own: the main one's is looked at first, then the others, newest last. None while nobody holds
/// one, and where free threading disabled it.
pub fn gil_holder(memory: &impl Memory, interpreter: &Interpreter) -> Option<(u64, Option<u32>)> {
    let layout = &interpreter.layout;
    let offset = u64::from(layout.gil);
    let gils = if layout.gil_is_pointer == 0 {
        vec![interpreter.runtime + offset]
    } else {
        let states = interpreters(memory, interpreter);
        states.iter().rev().filter_map(|state| read_pointer(memory, state + offset)).collect()
    };
    let state = gils.into_iter().find_map(|gil| {
        let is_locked = read_u32(memory, gil + u64::from(layout.gil_locked)) == Some(1);
        is_locked.then(|| read_pointer(memory, gil + u64::from(layout.gil_last_holder))).flatten()
    })?;
    Some((state, native_ids(memory, interpreter, state).next()))
}

/// Where the main interpreter's GIL is; none before it is made.
pub fn gil_address(memory: &impl Memory, interpreter: &Interpreter) -> Option<u64> {
    let layout = &interpreter.layout;
    let offset = u64::from(layout.gil);
    match layout.gil_is_pointer {
        0 => Some(interpreter.runtime + offset),
        // The main one is the last of the list.
        _ => read_pointer(memory, interpreters(memory, interpreter).last()? + offset),
    }
}
