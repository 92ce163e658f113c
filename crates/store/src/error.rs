//! What can go wrong with a trace file, each in one sentence that says what to do.

use crate::schema::SCHEMA_VERSION;
use rusqlite::{Error, ErrorCode};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no trace at {path}; record one with `gpuwhy trace`, or name another file")]
    NotFound { path: PathBuf },
    #[error("{path} is a folder, not a trace file; name a file in it")]
    Folder { path: PathBuf },
    #[error("{path} cannot be opened: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error("{path} is empty, so there is no trace in it; record one with `gpuwhy trace`")]
    Empty { path: PathBuf },
    #[error(
        "{path} holds no tables, so there is no trace in it; if it was copied while it was written, copy the file {path}-wal \
         that lay beside it, too"
    )]
    Blank { path: PathBuf },
    #[error(
        "{path} is not a gpuwhy trace: it is no SQLite file at all; name a file that `gpuwhy trace` wrote"
    )]
    NotADatabase { path: PathBuf },
    #[error("{path} is an SQLite file but not a gpuwhy trace; name a file that `gpuwhy trace` wrote")]
    Foreign { path: PathBuf },
    #[error("{path} looks like a trace of Ingero, but {why}; use a whole copy of it")]
    Half { path: PathBuf, why: String },
    #[error(
        "{path} was written by a newer gpuwhy (schema version {found}; this one knows up to {known}); update gpuwhy",
        known = SCHEMA_VERSION
    )]
    Newer { path: PathBuf, found: i64 },
    #[error(
        "{path} is damaged, cut short or overwritten ({why}); use a copy of it, or record to another file"
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "another gpuwhy trace is writing {path}{pid}; stop it, or write to another file",
        pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Busy { path: PathBuf, pid: Option<u32> },
    #[error(
        "the disk is full, so {path} cannot grow; what was committed is safe: free space, or lower --max-size"
    )]
    Full { path: PathBuf },
    #[error("writing {path} failed: {why}; what was committed is safe: check the disk")]
    Disk { path: PathBuf, why: String },
    /// The user's statement is wrong.
    #[error("that SQL is wrong: {0}")]
    Sql(String),
    #[error("that SQL would change the trace; only SELECT is allowed")]
    ReadOnly,
    #[error("the SQL function {0} is not allowed here; use functions that only compute")]
    Function(String),
    #[error("that SQL ran longer than {0:?} and was stopped; narrow it by time or operation")]
    TooSlow(Duration),
    #[error(
        "that SQL needs more than {} of temporary files and was stopped; narrow it by time or operation",
        whole(*.0)
    )]
    TooLarge(u64),
    #[error("that SQL needs more than {} of memory and was stopped; select less at a time", whole(*.0))]
    TooMuchMemory(u64),
    /// The process that answers statements.
    #[error("{0}")]
    Worker(String),
    #[error("the question was taken back before it was answered; ask again")]
    Stopped,
    #[error("{path} is locked by another program; close that, and try again")]
    Locked { path: PathBuf },
    #[error("{path} cannot be used: {source}; try again, or use another file")]
    Sqlite { path: PathBuf, source: Error },
}

/// A limit in the unit it was chosen in.
fn whole(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 30) {
        format!("{} GiB", bytes >> 30)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

impl StoreError {
    /// What an error of the engine means for the file at `path`.
    pub(crate) fn at(path: &Path, source: Error) -> StoreError {
        let path = path.to_path_buf();
        let why = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => StoreError::Stopped,
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, why },
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, why },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                StoreError::Unreadable { path, why }
            }
            // A statement of ours that does not fit the tables, or a value that does not fit its column.
            Some(ErrorCode::Unknown) => StoreError::Damaged { path, why },
            None if matches!(source, Error::InvalidColumnType(..) | Error::IntegralValueOutOfRange(..)) => {
                StoreError::Damaged { path, why }
            }
            _ => StoreError::Sqlite { path, source },
        }
    }

    /// The same for a file that could not be opened at all.
    pub(crate) fn open(path: &Path, source: &std::io::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => StoreError::NotFound { path },
            std::io::ErrorKind::IsADirectory => StoreError::Folder { path },
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full { path },
            std::io::ErrorKind::PermissionDenied => StoreError::Unreadable {
                path,
                why: "permission denied; read it as its owner or as root".into(),
            },
            _ => StoreError::Unreadable { path, why: format!("{source}; name another file") },
        }
    }
}
