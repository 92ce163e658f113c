//! Telling a trace from other files, without changing them.

use crate::StoreError;
use crate::schema::{APPLICATION_ID, SCHEMA_VERSION};
use rusqlite::{Connection, OpenFlags};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// What an SQLite file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Trace,
    /// A database without any table, as a writer leaves it that was killed in its first moment.
    Blank,
}

/// The path as SQLite must get it: one that begins with `/` is never taken for a URI.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// A regular file, or why not. Opens nothing: closing a descriptor would drop the locks that a writer in this
/// very process holds on the file.
pub(crate) fn regular(path: &Path) -> Result<Metadata, StoreError> {
    let metadata = std::fs::metadata(path).map_err(|error| StoreError::open(path, &error))?;
    if metadata.is_dir() {
        return Err(StoreError::Folder { path: path.into() });
    }
    if !metadata.is_file() {
        return Err(StoreError::Unreadable {
            path: path.into(),
            why: "it is not a regular file; name one that is".into(),
        });
    }
    Ok(metadata)
}

/// The file that SQLite keeps beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(absolute(path), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| StoreError::at(path, error))?;
    db.busy_timeout(std::time::Duration::from_secs(5)).map_err(|error| StoreError::at(path, error))?;
    Ok(db)
}

pub(crate) fn identify(db: &Connection, path: &Path) -> Result<Found, StoreError> {
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let read = || -> rusqlite::Result<(i64, i64, i64, i64)> {
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
            number("SELECT count(*) FROM sqlite_master")?,
            number(
                "SELECT count(*) FROM sqlite_master WHERE name IN ('sessions', 'calls', 'call_stats', 'events')",
            )?,
        ))
    };
    // SQLite itself takes a part of a page at the end for a page.
    let cut = || -> rusqlite::Result<bool> {
        let page = number("PRAGMA page_size")?.max(1) as u64;
        let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(!length.is_multiple_of(page) && !beside(path, "-wal").exists())
    };
    let (application, version, objects, ours) = read().map_err(|error| StoreError::at(path, error))?;
    let cut = cut().map_err(|error| StoreError::at(path, error))?;
    let path = path.to_path_buf();
    match application {
        APPLICATION_ID if version > SCHEMA_VERSION => Err(StoreError::Newer { path, found: version }),
        APPLICATION_ID if version < 1 || ours != 4 => {
            Err(StoreError::Damaged { path, why: "its tables are missing".into() })
        }
        APPLICATION_ID if cut => Err(StoreError::Damaged { path, why: "its last page is not whole".into() }),
        APPLICATION_ID => Ok(Found::Trace),
        0 if objects == 0 => Ok(Found::Blank),
        _ => Err(StoreError::Foreign { path }),
    }
}
