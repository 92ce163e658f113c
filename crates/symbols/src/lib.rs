//! Where a thread was. Unwinds copies of stacks with the unwind tables of the files a process runs, and finds names and
//! lines for addresses, also after the process has ended: what it executes is opened while it lives.
//!
//! All of what is read here was written by the processes that are looked at. Everything is bounded: sections, tables,
//! names, expressions, frames; and a file that has changed since it was mapped is not read any more.
//!
//! [`Symbols`] stays in the thread it was made in, which need not be able to open anything: it asks [`answer`] of another.
//! What it has [`Seen`] can be given to another one.

mod debug_file;
mod demangle;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod image;
mod images;
mod limits;
mod maps;
mod names;
mod opener;
mod perf_map;
mod process;
mod recent;
mod stack;
mod symbol_table;
mod symbols;
mod tables;
mod vdso;
mod walk;

pub use frame::{Frame, Module, Registers, Swapped, Unwound};
pub use limits::Limits;
pub use opener::{Ahead, Answer, Question, answer};
pub use process::Seen;
pub use symbols::Symbols;
pub use vdso::own_vdso;
