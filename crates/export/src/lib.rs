//! A trace in other tools' formats: pure functions from a [`gpuwhy_store::Reader`] to bytes, row by row, so that a file
//! of any size can be written. [`FORMATS`] lists them all; the command line and its help are projections of it.

mod about;
mod chrome;
mod error;
mod folded;
mod format;
mod json;
mod names;
mod otlp;
mod parquet;
mod perfetto;
mod pprof;
mod profile;
mod source;
mod speedscope;
mod stacks;
mod text;
mod timeline;

pub use error::ExportError;
pub use format::{FORMATS, Files, Format, Shape, Unclear, find, of_file};
pub use source::{Exported, Source};
