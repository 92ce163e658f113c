//! Stacks: as the kernel sends them, and as people read them.

use serde::{Deserialize, Serialize};

/// A user stack, innermost first, known by a number made from process, addresses and lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stack {
    pub stack_id: i64,
    pub pid: u32,
    pub addresses: Vec<u64>,
    /// Functions and lines, native and Python in call order; empty where nobody looked.
    #[serde(default)]
    pub frames: Vec<Frame>,
    /// It goes down to where the thread began.
    #[serde(default)]
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Frame {
    pub kind: FrameKind,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The library or program it is in; empty for Python.
    pub module: String,
    /// 0 for Python.
    pub address: u64,
    /// The compiler put it into the one that follows.
    pub inlined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    #[default]
    Native,
    Python,
    Kernel,
}

impl FrameKind {
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::Native => "native",
            FrameKind::Python => "python",
            FrameKind::Kernel => "kernel",
        }
    }
}

/// A stack as the kernel took it: to be unwound and named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawStack {
    pub time_ns: u64,
    /// Calls and samples refer to it by this.
    pub key: u64,
    pub pid: u32,
    pub tid: u32,
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// The stack itself from `sp` on, as far as it was copied.
    pub copied: Vec<u8>,
    /// Return addresses that a probe has put its own in place of: where, and what was there.
    pub swapped: Vec<(u64, u64)>,
    /// As far as frame pointers lead.
    pub native: Vec<u64>,
    pub python: Vec<PythonFrame>,
    /// Whether the thread has any could not be told.
    pub python_cut: bool,
    /// It is of running code: `ip` is where the thread is, not where a call returns to; 0 for its Python frames alone.
    pub sampled: bool,
}

/// Where a thread was in user space when it last came into the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadRegisters {
    pub pid: u32,
    pub tid: u32,
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// As in [`RawStack`].
    pub swapped: Vec<(u64, u64)>,
}

/// A Python frame as the kernel read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonFrame {
    /// The number of its code object, see [`RawCode`].
    pub code: u64,
    /// Where that is.
    pub address: u64,
    /// Byte offset of the executing instruction.
    pub instr: u32,
    /// The outermost of one run of the eval loop.
    pub entry: bool,
    /// Where on the native stack that run has its own frame; 0 where not known.
    pub foot: u64,
}

/// A code object as the kernel read it, once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawCode {
    pub time_ns: u64,
    pub pid: u32,
    pub code: u64,
    pub address: u64,
    pub first_line: u32,
    pub file: RawText,
    pub name: RawText,
    /// Its line table, as much as there was room for.
    pub lines: Vec<u8>,
    /// How long that is in all.
    pub lines_bytes: usize,
}

/// A Python string as it lies in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawText {
    pub state: u32,
    pub length: u64,
    pub data: Vec<u8>,
}

/// Whether a line, which begins with a file's path, is of Python's own library, an installed package, or code made by either.
pub fn is_of_library(line: &str) -> bool {
    line.starts_with('<')
        || is_compiled_model(line)
        || ["/site-packages/", "/dist-packages/", "/lib/python3"].iter().any(|folder| line.contains(folder))
}

/// Whether a line, which begins with a file's path, is of code that PyTorch's compiler made of a model: in its usual cache, or
/// in another by the name that it gives such files, a hash in base 32.
pub fn is_compiled_model(line: &str) -> bool {
    const HASH_LENGTH: usize = 50;
    let file = line.split(".py").next().unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or_default();
    let is_hash = |name: &str| {
        name.len() >= HASH_LENGTH
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte))
    };
    line.contains("/torchinductor_") || name.strip_prefix('c').is_some_and(is_hash)
}
