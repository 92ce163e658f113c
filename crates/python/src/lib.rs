//! CPython from outside, 3.9 to 3.14, with and without the GIL: where the interpreter of a process is, what its
//! threads run, and which file, function and line that is. Nothing of the process is executed.
//!
//! The kernel's walker gets the same [`Layout`]; what it sends is turned into words with [`read_code`],
//! [`decode_text`] and [`line_at`].

mod code;
mod elf;
mod error;
mod find;
#[doc(hidden)]
pub mod fuzz;
mod gil;
mod layout;
mod layouts;
mod lines;
mod memory;
mod offsets;
mod stack;
mod text;
mod thread;
mod version;

pub use code::{Code, read_code};
pub use error::PythonError;
pub use find::{Interpreter, find};
pub use gil::{gil_address, gil_holder};
pub use layout::{FrameVia, InstrKind, Layout};
pub use lines::line_at;
pub use memory::{Memory, ProcessMemory};
pub use stack::{RawFrame, stack};
pub use text::decode_text;
pub use thread::Thread;
pub use version::Version;
