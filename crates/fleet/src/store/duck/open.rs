//! Opening the file: one writer, a schema this program knows, and settings nobody can change afterwards.

use super::schema::MIGRATIONS;
use super::{DuckOptions, Open, write};
use crate::gently::give_way;
use crate::store::StoreError;
use duckdb::{Config, Connection, params};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The folder's, for as long as the file is open.
pub(super) fn lock(folder: &Path) -> Result<File, StoreError> {
    let unusable = |why: String| StoreError::Open { path: folder.into(), why };
    // What tenants reported is nobody else's.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unusable(error.to_string()))?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("fleet.lock"))
        .map_err(|error| unusable(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: folder.into() }),
        Err(TryLockError::Error(error)) => Err(unusable(error.to_string())),
    }
}

/// DuckDB's threads are begun by the one that opens it, and give way as that one does.
pub(super) fn open(path: &Path, options: &DuckOptions) -> Result<Open, StoreError> {
    let opening = || {
        give_way();
        opened(path, options)
    };
    let failed =
        |_| Err(StoreError::Open { path: path.into(), why: "the thread that opens it failed".into() });
    std::thread::scope(|scope| scope.spawn(opening).join().unwrap_or_else(failed))
}

fn opened(path: &Path, options: &DuckOptions) -> Result<Open, StoreError> {
    let folder = path.parent().unwrap_or(path).to_path_buf();
    let unusable = |error: duckdb::Error| {
        let why = super::ask::sentence(&error);
        match why.contains("Could not set lock") || why.contains("Conflicting lock") {
            true => StoreError::Locked { path: folder.clone() },
            false => StoreError::Open { path: path.into(), why },
        }
    };
    let temporary = folder.join("temporary");
    let connection = config(options, &temporary)
        .and_then(|config| Connection::open_with_flags(path, config))
        .map_err(unusable)?;
    let found = version(&connection).map_err(unusable)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::Newer { path: folder, found, known });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        migrate(&connection, index, migration).map_err(unusable)?;
    }
    write::prepare(&connection).map_err(unusable)?;
    // From here on no statement, whoever wrote it, changes a setting.
    connection.execute_batch("SET lock_configuration = true").map_err(unusable)?;
    let nodes = write::known_nodes(&connection).map_err(unusable)?;
    let shared =
        share(path).map_err(|error| StoreError::Open { path: path.into(), why: error.to_string() })?;
    Ok(Open { writer: connection, nodes, nodes_written: Instant::now(), _shared: shared })
}

/// DuckDB locks the file for itself. That becomes a lock that others may have as well, who then can read it and not write to it:
/// the statements of others are run by processes of their own. Who else writes is kept out by the folder's lock.
fn share(path: &Path) -> std::io::Result<File> {
    let file = File::open(path)?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared)?;
    Ok(file)
}

fn config(options: &DuckOptions, temporary: &Path) -> duckdb::Result<Config> {
    Config::default()
        .enable_autoload_extension(false)?
        .with("autoinstall_known_extensions", "false")?
        .with("memory_limit", &options.memory)?
        .threads(options.threads as i64)?
        .with("temp_directory", temporary.display().to_string())?
        .with("max_temp_directory_size", &options.temporary)?
        // When a checkpoint is made is decided by who writes: not while others read the file.
        .with("checkpoint_threshold", "1TB")?
        // No statement reads or writes other files, attaches others, or loads code.
        .enable_external_access(false)
}

fn version(connection: &Connection) -> duckdb::Result<i64> {
    let exists: bool = connection.query_row(
        "SELECT count(*) > 0 FROM information_schema.tables WHERE table_name = 'schema_version'",
        [],
        |row| row.get(0),
    )?;
    match exists {
        true => {
            connection.query_row("SELECT coalesce(max(version), 0)::BIGINT FROM schema_version", [], |row| {
                row.get(0)
            })
        }
        false => Ok(0),
    }
}

fn migrate(connection: &Connection, index: usize, migration: &str) -> duckdb::Result<()> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    connection.execute_batch("BEGIN TRANSACTION")?;
    connection.execute_batch(migration)?;
    connection.execute(
        "INSERT INTO schema_version VALUES (?, ?, ?)",
        params![index as i64 + 1, now_ns, concat!("gpuwhy-fleet ", env!("CARGO_PKG_VERSION"))],
    )?;
    connection.execute_batch("COMMIT")
}
