//! ELF files of strangers. Headers may claim what they like: every read is bounded by what is needed, by the file's own
//! size and by a limit, so that neither a lie nor a sparse file costs memory.

mod bytes;
mod layout;
mod search;

pub use bytes::Bytes;
pub use layout::{DebugPart, Layout, Part, SymbolParts};
pub use search::{Found, Search, Table, find_symbols};
