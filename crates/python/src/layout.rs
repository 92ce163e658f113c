//! Where the fields are that walking a stack needs.

/// Offsets in bytes, in the version and build of one interpreter. Plain data: the kernel's walker gets the same.
/// Where a field that some versions lack has offset 0, this version lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// In `_PyRuntime`: pointer to the newest `PyInterpreterState`; the main one is the last of the list.
    pub interpreters_head: u32,
    /// In `_PyRuntime`: the thread state that has the GIL; up to 3.11, later it is thread-local.
    pub tstate_current: u32,
    pub interp_next: u32,
    /// In `PyInterpreterState`: pointer to its newest `PyThreadState`.
    pub interp_threads_head: u32,
    pub tstate_next: u32,
    /// `unsigned long`: `pthread_self()`, which is the fs base on x86-64.
    pub tstate_thread_id: u32,
    /// `unsigned long`, 3.11 and newer: the thread's id in its own pid namespace.
    pub tstate_native_thread_id: u32,
    /// A `u32` of flags, 3.12 and newer.
    pub tstate_status: u32,
    /// The flag among them that is set while this thread state is the current one of its thread. A thread that gave
    /// up the GIL (or, free-threaded, detached) has none set: so it decides, but its absence says nothing.
    pub tstate_active_mask: u32,
    /// What [`FrameVia`] says.
    pub tstate_frame: u32,
    pub frame_via: FrameVia,
    pub cframe_current_frame: u32,
    /// The thread's interpreter.
    pub tstate_interp: u32,
    /// The garbage collector's state in an interpreter.
    pub interp_gc: u32,
    /// An `i32` in that state: not 0 while a collection runs.
    pub gc_collecting: u32,
    /// `f_code`, `f_executable`.
    pub frame_code: u32,
    /// What of that word is the pointer: the rest is a tag (3.14).
    pub frame_code_mask: u64,
    /// `f_back`, `previous`.
    pub frame_previous: u32,
    /// What [`InstrKind`] says.
    pub frame_instr: u32,
    pub instr_kind: InstrKind,
    /// An `i32`, free-threaded 3.14: which of the code's copies `instr_ptr` points into; see `code_tlbc`.
    pub frame_tlbc_index: u32,
    /// A `u8`.
    pub frame_owner: u32,
    /// Owners from this number on mark a frame that is no Python function but the foot of an eval loop (3.12 and
    /// newer); `u32::MAX` where there are none.
    pub owner_shim: u32,
    /// A bool, 3.11 only: this frame is the first of its eval loop.
    pub frame_is_entry: u32,
    pub code_filename: u32,
    pub code_name: u32,
    /// 3.11 and newer.
    pub code_qualname: u32,
    /// An `i32`.
    pub code_firstlineno: u32,
    /// `co_linetable`; `co_lnotab` in 3.9.
    pub code_linetable: u32,
    /// Where the instructions begin in the code object, 3.11 and newer.
    pub code_adaptive: u32,
    /// Free-threaded 3.14: each thread has its own copy of the instructions. This is a pointer to an array whose entry
    /// `frame_tlbc_index` is where the frame's copy begins; entry 0 is `code + code_adaptive`.
    pub code_tlbc: u32,
    /// Where the entries begin in that array. A `u64` before them counts them.
    pub tlbc_entries: u32,
    pub unicode_length: u32,
    /// The `u32` whose bits tell how the characters are stored.
    pub unicode_state: u32,
    /// Bytes a character: three bits of the state, this far from its lowest.
    pub unicode_kind_shift: u32,
    /// The bit of the state of text that is all ASCII.
    pub unicode_ascii_mask: u32,
    /// Where the characters begin if it is, and if it is not.
    pub unicode_ascii_data: u32,
    pub unicode_compact_data: u32,
    pub bytes_size: u32,
    pub bytes_data: u32,
    /// Up to 3.11 the GIL's offset in `_PyRuntime`; from 3.12 on, in `PyInterpreterState`, that of a pointer to it.
    pub gil: u32,
    /// 1 from 3.12 on.
    pub gil_is_pointer: u32,
    /// A futex within this many bytes of its start is a wait for the GIL.
    pub gil_bytes: u32,
    /// In the GIL: the thread state that has it or had it last.
    pub gil_last_holder: u32,
    /// In the GIL: an `i32`, 1 while somebody has it. A GIL that is disabled stays 0.
    pub gil_locked: u32,
}

/// How a thread state leads to its innermost frame.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameVia {
    /// `tstate.frame` is a `PyFrameObject` (3.9, 3.10).
    #[default]
    FrameObject = 0,
    /// `tstate.cframe` points to a struct on the native stack, whose `current_frame` it is (3.11, 3.12).
    Cframe = 1,
    /// `tstate.current_frame` (3.13 and newer).
    Direct = 2,
}

/// How a frame tells its executing instruction. None of them needs a correction for frames that have called out: the
/// instruction is a call's own, or one of its inline caches, which the line table gives the call's line.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InstrKind {
    /// An `i32` of bytes; -1 before the first instruction (3.9).
    #[default]
    LastiBytes = 0,
    /// An `i32` of two bytes each; -1 before the first instruction (3.10).
    LastiUnits = 1,
    /// A pointer. Less `code + code_adaptive` it is the byte offset of the instruction or of its last inline cache; -2
    /// before the first instruction (3.11, 3.12).
    PrevInstr = 2,
    /// A pointer. Less `code + code_adaptive`, or less the thread's own copy (`code_tlbc`), it is the byte offset of
    /// the instruction (3.13 and newer).
    InstrPtr = 3,
}
