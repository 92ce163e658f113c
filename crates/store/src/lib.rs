//! The trace file: an SQLite database whose schema is declared once as data, with one writer that is fast and
//! leaves a readable file whenever it dies, and readers that cannot change it.

mod access;
mod error;
mod file;
mod ingero;
mod lock;
pub mod merge;
mod reader;
pub mod schema;
mod session;
mod stats;
mod target;
pub mod transfer;
mod writer;

pub use access::Access;
pub use error::StoreError;
pub use reader::{
    Answer, Event, Filter, Limits, Maker, Origin, Reader, Record, Span, Stop, StoredCalls, Value, ValueRef,
    Worker, serve_statement,
};
pub use session::{Session, SessionInfo};
pub use stats::CallStats;
pub use target::check_target;
pub use writer::{MIN_SIZE, Options, ProbeCost, Writer, write_findings};
