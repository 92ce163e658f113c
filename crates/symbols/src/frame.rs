//! What goes in and what comes out.

/// Where a thread was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    /// The frame pointer: rbp, x29.
    pub bp: u64,
    /// The link register: where a function that has not saved it returns to.
    #[cfg(target_arch = "aarch64")]
    pub lr: u64,
}

/// A return address that a return probe swapped for its trampoline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swapped {
    /// The address of the slot on the stack.
    pub at: u64,
    pub original: u64,
}

/// A stack, as far as it could be followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwound {
    /// Innermost first. The first is the instruction pointer, the others are return addresses.
    pub addresses: Vec<u64>,
    /// Where the stack of each of them begins: it goes up to where that of the next one does.
    pub stack_pointers: Vec<u64>,
    /// The thread's outermost frame was reached.
    pub complete: bool,
}

/// A function that an address is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The path as the process sees it, or `[vdso]`, `[uprobes]`, `[anon]`, `perf-map`, `[unknown]`.
    pub module: String,
    pub address: u64,
    /// The compiler put this function's code into the one of the next frame.
    pub inlined: bool,
}

/// An executable mapping, and where in its file an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    pub path: String,
    pub file_offset: u64,
    /// Hexadecimal.
    pub build_id: Option<String>,
}
