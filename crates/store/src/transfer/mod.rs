//! A trace as a stream of rows, from which another host makes a file of its own. Rows travel and not the file: a trace that is
//! being written is sent as it is at one moment, without a copy on the node's disk, and nobody opens a database that
//! somebody else has made.

pub(crate) mod format;
mod receive;
mod send;

pub use receive::Receiver;
pub use send::send;

use crate::StoreError;
use crate::schema::SCHEMA_VERSION;

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "its trace is one of Ingero, which cannot be merged with others; ask it by itself, or record with `gpuwhy trace`"
    )]
    Foreign,
    #[error("it was interrupted")]
    Interrupted,
    /// Whoever is sent to does not take it.
    #[error("{0}")]
    Gone(#[from] std::io::Error),
    #[error("it sent something that is no trace ({0})")]
    NotATrace(String),
    #[error(
        "it runs a newer gpuwhy (schema version {found}; this one knows up to {known}); update gpuwhy here",
        known = SCHEMA_VERSION
    )]
    Newer { found: i64 },
    #[error("it stopped in the middle of its trace")]
    Cut,
    /// What the sender says went wrong.
    #[error("it could not go on: {0}")]
    Sender(String),
    #[error("its trace is larger than {limit} bytes")]
    TooLarge { limit: u64 },
}

/// Filled by every new file itself.
const NOT_SENT: [&str; 2] = ["hist_buckets", "schema_doc"];
