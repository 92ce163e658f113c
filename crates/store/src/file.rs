//! Telling a trace from other files, without changing them.

use crate::StoreError;
use crate::ingero::{self, Look};
use crate::schema::{APPLICATION_ID, Missing, SCHEMA_VERSION, VIEWS, missing_parts};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// What an SQLite file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Trace,
    /// A trace of an earlier schema version, or one whose views are not ours: both get ours.
    Older,
    /// A trace of another tool, which is read but never written.
    Ingero,
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
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) && is_at_rest(path) {
        true => Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI),
        false => Connection::open_with_flags(absolute(path), flags),
    };
    let db = opened.map_err(|error| StoreError::at(path, error))?;
    let prepare = || -> rusqlite::Result<()> {
        // Our schema has no triggers, and its views call nothing that changes anything: what a file has of that is not ours.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.busy_timeout(std::time::Duration::from_secs(5))
    };
    prepare().map_err(|error| StoreError::at(path, error))?;
    Ok(db)
}

/// Whether a file keeps a write-ahead log and none is beside it: whoever wrote it has closed it. SQLite would make a log and its index to
/// read such a file, leave both behind, and fail where it may not.
fn is_at_rest(path: &Path) -> bool {
    // A writer of this very process has its log there: nothing is opened then, as closing it would drop the writer's locks.
    if beside(path, "-wal").exists() {
        return false;
    }
    const READ_VERSION: usize = 19;
    const OF_WAL: u8 = 2;
    let mut header = [0u8; READ_VERSION + 1];
    let read =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut header));
    read.is_ok() && header[READ_VERSION] == OF_WAL
}

/// The file as a URI that promises SQLite that nobody writes.
fn immutable(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let path = absolute(path);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let encoded: String = path
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("file:{encoded}?immutable=1")
}

/// Tables of every version: what claims to be an older trace and lacks one of them is none.
const ALWAYS: [&str; 6] = ["calls", "ops", "call_stats", "blame", "sessions", "schema_doc"];

pub(crate) fn identify(db: &Connection, path: &Path) -> Result<Found, StoreError> {
    let at = |error| StoreError::at(path, error);
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(at);
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let objects = number("SELECT count(*) FROM sqlite_master")?;
    if application == 0 && objects == 0 {
        return Ok(Found::Blank);
    }
    if let Some(why) = computes(db).map_err(at)? {
        return Err(StoreError::Damaged { path: path.into(), why });
    }
    if application != APPLICATION_ID {
        return match ingero::look(db).map_err(at)? {
            Look::Ingero => whole(db, path).map(|()| Found::Ingero),
            Look::Half(why) => Err(StoreError::Half { path: path.into(), why }),
            Look::Other => Err(StoreError::Foreign { path: path.into() }),
        };
    }
    if version > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: path.into(), found: version });
    }
    let damaged = |why: String| Err(StoreError::Damaged { path: path.into(), why });
    if version < 1 {
        return damaged("it has no schema version".into());
    }
    if version == SCHEMA_VERSION
        && let Some(name) = missing(db).map_err(at)?
    {
        return damaged(format!("{name} is missing"));
    }
    for table in ALWAYS {
        let there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?";
        if db.query_row(there, [table], |row| row.get::<_, i64>(0)).map_err(at)? == 0 {
            return damaged(format!("its table {table} is missing"));
        }
    }
    whole(db, path)?;
    let is_ours = version == SCHEMA_VERSION && has_our_views(db).map_err(at)?;
    Ok(if is_ours { Found::Trace } else { Found::Older })
}

/// Why reading its tables would run code of whoever made the file: virtual tables and generated columns do, and so does a text
/// that has to be converted first. No trace has any of them.
fn computes(db: &Connection) -> rusqlite::Result<Option<String>> {
    let encoding: String = db.query_row("PRAGMA encoding", [], |row| row.get(0))?;
    if encoding != "UTF-8" {
        return Ok(Some(format!("its texts are {encoding}")));
    }
    let name = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).optional();
    let of_virtual =
        "SELECT substr(name, 1, 100) FROM sqlite_master WHERE type = 'table' AND rootpage = 0 LIMIT 1";
    if let Some(name) = name(of_virtual)? {
        return Ok(Some(format!("its table {name} is a virtual one")));
    }
    let generated = "SELECT substr(m.name || '.' || i.name, 1, 100) FROM sqlite_master m, pragma_table_xinfo(m.name) i \
                     WHERE m.type = 'table' AND i.hidden <> 0 LIMIT 1";
    Ok(name(generated)?.map(|name| format!("its column {name} is computed")))
}

/// Why writing to its tables would do so: constraints, defaults and indexes over expressions are computed for every row.
pub(crate) fn computes_when_written(db: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT substr(name, 1, 100) FROM sqlite_master WHERE type IN ('table', 'index') AND (\
               sql LIKE '%check(%' OR sql LIKE '%check (%' OR sql LIKE '% default %' \
               OR type = 'index' AND (sql LIKE '% where %' OR sql LIKE '%(%(%')) LIMIT 1";
    let name: Option<String> = db.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(name.map(|name| format!("{name} computes something for every row that is written")))
}

/// Whether each view is what we make of it: one of somebody else could be anything.
fn has_our_views(db: &Connection) -> rusqlite::Result<bool> {
    let mut text = db.prepare("SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?")?;
    for view in VIEWS {
        let own: Option<String> = text.query_row([view.name], |row| row.get(0)).optional()?;
        if own.is_none_or(|own| own != view.create_sql()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// SQLite itself takes a part of a page at the end for a page.
fn whole(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let page: i64 = db
        .query_row("PRAGMA page_size", [], |row| row.get(0))
        .map_err(|error| StoreError::at(path, error))?;
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if !length.is_multiple_of(page.max(1) as u64) && !beside(path, "-wal").exists() {
        return Err(StoreError::Damaged { path: path.into(), why: "its last page is not whole".into() });
    }
    Ok(())
}

/// A table, column or view that a file of our version must have and this one does not.
fn missing(db: &Connection) -> rusqlite::Result<Option<String>> {
    match missing_parts(db)?.first() {
        Some(Missing::Table(table)) => return Ok(Some(format!("its table {}", table.name))),
        Some(Missing::Columns(table, columns)) => {
            let column = columns.first().map_or("", |column| column.name);
            return Ok(Some(format!("its column {}.{column}", table.name)));
        }
        None => {}
    }
    for view in VIEWS {
        let there = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = ?";
        if db.query_row(there, [view.name], |_| Ok(())).optional()?.is_none() {
            return Ok(Some(format!("its view {}", view.name)));
        }
    }
    Ok(None)
}
