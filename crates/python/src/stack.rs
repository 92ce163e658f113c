//! A thread's Python stack.

use crate::memory::{is_address, read_pointer, read_u32, read_u64};
use crate::thread::states;
use crate::{FrameVia, InstrKind, Interpreter, Layout, Memory, PythonError, Thread};

/// An instruction further into its code than this is none: the frame changed while it was read.
const FURTHEST_INSTRUCTION: u64 = 1 << 26;

/// A Python function that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawFrame {
    /// Address of its code object.
    pub code: u64,
    /// Byte offset of the executing instruction in that code.
    pub instr: u32,
    /// It is the outermost of those that one native run of the eval loop runs: native and Python frames are merged
    /// with it. Up to 3.10 each frame has a native one.
    pub entry: bool,
}

/// The Python frames of a thread, innermost first, `most` of them at most; empty while it runs no Python. Frames that
/// are no Python function are left out.
///
/// A thread may have a thread state for each of several interpreters. The one that is current on it is flagged, but
/// only while it runs Python code. Otherwise the innermost counts: the one whose eval loop is the furthest down the
/// native stack, where 3.11 and newer keep a struct for each. Older ones: the newest interpreter that has frames.
pub fn stack(
    memory: &impl Memory,
    interpreter: &Interpreter,
    thread: Thread,
    most: usize,
) -> Result<Vec<RawFrame>, PythonError> {
    let layout = &interpreter.layout;
    let head = interpreter.runtime + u64::from(layout.interpreters_head);
    read_pointer(memory, head).ok_or(PythonError::NotRunning)?;
    let states = states(memory, interpreter, thread);
    if states.is_empty() {
        return Err(PythonError::NoThread { native: thread.native });
    }
    let current = current_state(memory, interpreter);
    let mut best: Option<Walk> = None;
    for state in states {
        let Some(innermost) = innermost(memory, layout, state) else { continue };
        let walk = Walk::new(memory, layout, &innermost, most);
        if Some(state) == current || is_active(memory, layout, state) {
            return Ok(walk.frames);
        }
        if best.as_ref().is_none_or(|best| walk.loop_at < best.loop_at) {
            best = Some(walk);
        }
    }
    Ok(best.map(|walk| walk.frames).unwrap_or_default())
}

/// Up to 3.11 the one that has the GIL is known by itself.
fn current_state(memory: &impl Memory, interpreter: &Interpreter) -> Option<u64> {
    let offset = interpreter.layout.tstate_current;
    (offset != 0).then(|| read_pointer(memory, interpreter.runtime + u64::from(offset))).flatten()
}

fn is_active(memory: &impl Memory, layout: &Layout, state: u64) -> bool {
    layout.tstate_status != 0
        && read_u32(memory, state + u64::from(layout.tstate_status))
            .is_some_and(|status| status & layout.tstate_active_mask != 0)
}

/// Where a walk begins.
struct Innermost {
    frame: u64,
    /// Where on the native stack its eval loop has its struct, if that is known before walking.
    loop_at: Option<u64>,
}

fn innermost(memory: &impl Memory, layout: &Layout, state: u64) -> Option<Innermost> {
    let pointer = read_pointer(memory, state + u64::from(layout.tstate_frame))?;
    match layout.frame_via {
        FrameVia::FrameObject | FrameVia::Direct => Some(Innermost { frame: pointer, loop_at: None }),
        FrameVia::Cframe => {
            let frame = read_pointer(memory, pointer + u64::from(layout.cframe_current_frame))?;
            Some(Innermost { frame, loop_at: Some(pointer) })
        }
    }
}

struct Walk {
    frames: Vec<RawFrame>,
    /// Address of the innermost eval loop's struct on the native stack; the largest where it has none.
    loop_at: u64,
}

impl Walk {
    fn new(memory: &impl Memory, layout: &Layout, innermost: &Innermost, most: usize) -> Self {
        let mut frames: Vec<RawFrame> = Vec::new();
        let mut loop_at = innermost.loop_at;
        let mut next = Some(innermost.frame);
        // Every other frame may be one that is left out.
        for _ in 0..most.saturating_mul(2).saturating_add(2) {
            let Some(address) = next else { break };
            let Some(frame) = Frame::read(memory, layout, address) else { break };
            if frame.is_shim {
                loop_at = loop_at.or(Some(address));
                if let Some(last) = frames.last_mut() {
                    last.entry = true;
                }
            } else if !is_trampoline(memory, layout, frame.code) {
                if frames.len() == most {
                    break;
                }
                let instr = frame.instruction(memory, layout);
                frames.push(RawFrame { code: frame.code, instr, entry: frame.is_entry });
            }
            next = is_address(frame.previous).then_some(frame.previous);
        }
        if let (None, Some(last)) = (next, frames.last_mut()) {
            last.entry = true;
        }
        Self { frames, loop_at: loop_at.unwrap_or(u64::MAX) }
    }
}

/// From 3.12 on, creating an object may put a frame between the caller and `__init__` that only checks what that
/// returns. Its code is a constant of the interpreter: no line, and one text for file and name.
fn is_trampoline(memory: &impl Memory, layout: &Layout, code: u64) -> bool {
    layout.owner_shim != u32::MAX
        && read_u32(memory, code + u64::from(layout.code_firstlineno)) == Some(0)
        && read_u64(memory, code + u64::from(layout.code_filename))
            == read_u64(memory, code + u64::from(layout.code_name))
}

/// The fields of one frame.
struct Frame {
    code: u64,
    previous: u64,
    /// As it is in the frame.
    instr: u64,
    copy: u32,
    is_shim: bool,
    is_entry: bool,
}

impl Frame {
    fn read(memory: &impl Memory, layout: &Layout, address: u64) -> Option<Self> {
        let mut bytes = [0; 256];
        // All of them at once, and nothing behind the last, which may be where the memory ends.
        let words = [layout.frame_code, layout.frame_previous, layout.frame_instr].map(|offset| offset + 8);
        let rest = [layout.frame_tlbc_index + 4, layout.frame_owner + 1, layout.frame_is_entry + 1];
        let length = words.into_iter().chain(rest).max()? as usize;
        if !memory.read(address, bytes.get_mut(..length)?) {
            return None;
        }
        let word = |offset: u32| {
            let at = offset as usize;
            bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
        };
        let byte = |offset: u32| if offset == 0 { 0 } else { bytes[offset as usize] };
        let is_shim = u32::from(byte(layout.frame_owner)) >= layout.owner_shim;
        let code = word(layout.frame_code)? & layout.frame_code_mask;
        (is_address(code) || is_shim).then_some(Self {
            code,
            previous: word(layout.frame_previous)?,
            instr: word(layout.frame_instr)?,
            copy: if layout.frame_tlbc_index == 0 { 0 } else { word(layout.frame_tlbc_index)? as u32 },
            is_shim,
            is_entry: layout.frame_via == FrameVia::FrameObject || byte(layout.frame_is_entry) != 0,
        })
    }

    /// The byte offset of the executing instruction; 0 before the first.
    fn instruction(&self, memory: &impl Memory, layout: &Layout) -> u32 {
        let offset = match layout.instr_kind {
            InstrKind::LastiBytes => u64::from(self.instr as u32),
            InstrKind::LastiUnits => u64::from((self.instr as u32).wrapping_mul(2)),
            InstrKind::PrevInstr | InstrKind::InstrPtr => {
                self.instr.wrapping_sub(self.first_instruction(memory, layout))
            }
        };
        if offset < FURTHEST_INSTRUCTION { offset as u32 } else { 0 }
    }

    fn first_instruction(&self, memory: &impl Memory, layout: &Layout) -> u64 {
        let own = self.code + u64::from(layout.code_adaptive);
        if self.copy == 0 {
            return own;
        }
        let copies = read_pointer(memory, self.code + u64::from(layout.code_tlbc));
        let entry = copies.map(|copies| copies + u64::from(layout.tlbc_entries) + 8 * u64::from(self.copy));
        entry.and_then(|entry| read_pointer(memory, entry)).unwrap_or(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::offsets::layout_of;
    use std::collections::BTreeMap;

    /// Words at addresses; all else is unreadable, but for the 256 bytes around a word.
    #[derive(Default)]
    struct Words(BTreeMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            let near = self.0.range(address.saturating_sub(256)..address + 256).next().is_some();
            for (at, byte) in (address..).zip(into.iter_mut()) {
                let word = self.0.range(at.saturating_sub(7)..=at).next_back();
                *byte = word.map_or(0, |(start, word)| word.to_le_bytes()[(at - start) as usize]);
            }
            near
        }
    }

    const RUNTIME: u64 = 0x1_0000;
    const INTERPRETER: u64 = 0x10_0000;
    const THREAD: u64 = 0x20_0000;
    const FRAME: u64 = 0x30_0000;
    const SHIM: u64 = 0x40_0000;
    const CODE: u64 = 0x50_0000;
    const COPIES: u64 = 0x60_0000;
    const COPY: u64 = 0x70_0000;

    /// One thread of free-threaded 3.14 in one function, in its own copy of the instructions.
    fn one_frame() -> (Words, Interpreter) {
        let version = Version { major: 3, minor: 14, micro: 0, free_threaded: true };
        let layout = layout_of(&version).unwrap();
        let at = |base: u64, offset: u32| base + u64::from(offset);
        let words = BTreeMap::from([
            (at(RUNTIME, layout.interpreters_head), INTERPRETER),
            (at(INTERPRETER, layout.interp_threads_head), THREAD),
            (at(THREAD, layout.tstate_native_thread_id), 7),
            (at(THREAD, layout.tstate_frame), FRAME),
            (at(FRAME, layout.frame_code), CODE | 1),
            (at(FRAME, layout.frame_previous), SHIM),
            (at(FRAME, layout.frame_instr), COPY + 42),
            (at(FRAME, layout.frame_tlbc_index), 2),
            (at(SHIM, layout.frame_tlbc_index), 3 << (8 * (layout.frame_owner - layout.frame_tlbc_index))),
            (at(CODE, layout.code_firstlineno), 1),
            (at(CODE, layout.code_tlbc), COPIES),
            (COPIES, 3),
            (at(COPIES, layout.tlbc_entries) + 16, COPY),
        ]);
        (
            Words(words),
            Interpreter { version, runtime: RUNTIME, layout, file: String::new(), on_disk: Vec::new() },
        )
    }

    const SEVEN: Thread = Thread { native: 7, fs_base: None };

    #[test]
    fn instructions_are_those_of_the_threads_copy() {
        let (memory, interpreter) = one_frame();
        let expected = RawFrame { code: CODE, instr: 42, entry: true };
        assert_eq!(stack(&memory, &interpreter, SEVEN, 10).unwrap(), [expected]);
        assert!(matches!(
            stack(&memory, &interpreter, Thread { native: 8, ..SEVEN }, 10),
            Err(PythonError::NoThread { native: 8 })
        ));
        assert!(matches!(stack(&Words::default(), &interpreter, SEVEN, 10), Err(PythonError::NotRunning)));
    }

    #[test]
    fn pointers_that_lead_nowhere_end_the_stack() {
        let layout = one_frame().1.layout;
        for (base, offset) in [
            (RUNTIME, layout.interpreters_head),
            (INTERPRETER, layout.interp_threads_head),
            (THREAD, layout.tstate_frame),
            (THREAD, layout.tstate_next),
            (FRAME, layout.frame_code),
            (FRAME, layout.frame_previous),
            (CODE, layout.code_tlbc),
        ] {
            let (mut memory, interpreter) = one_frame();
            memory.0.insert(base + u64::from(offset), u64::MAX - 2);
            assert!(stack(&memory, &interpreter, SEVEN, 10).map_or(0, |frames| frames.len()) <= 1);
            crate::gil_holder(&memory, &interpreter);
            assert_eq!(crate::read_code(&memory, &interpreter, u64::MAX - 2), None);
        }
    }

    #[test]
    fn a_circle_of_one_threads_states_is_left_soon() {
        let (mut memory, interpreter) = one_frame();
        memory.0.insert(THREAD + u64::from(interpreter.layout.tstate_next), THREAD);
        assert!(states(&memory, &interpreter, SEVEN).len() <= 64);
    }

    #[test]
    fn a_stack_that_bites_its_tail_ends() {
        let (mut memory, interpreter) = one_frame();
        memory.0.insert(FRAME + u64::from(interpreter.layout.frame_previous), FRAME);
        let frames = stack(&memory, &interpreter, SEVEN, 10).unwrap();
        assert_eq!(frames.len(), 10);
        memory.0.insert(THREAD + u64::from(interpreter.layout.tstate_next), THREAD);
        memory.0.insert(INTERPRETER + u64::from(interpreter.layout.interp_next), INTERPRETER);
        let other = Thread { native: 8, ..SEVEN };
        assert!(stack(&memory, &interpreter, other, 10).is_err());
    }
}
