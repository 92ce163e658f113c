//! The process that runs a statement somebody else wrote: it reads one request from its standard input, answers on its standard
//! output and ends. What it may take is limited by the kernel, so whatever the statement does, it does to this process alone.

use super::ask;
use crate::store::{Reach, Rows, Stop, StoreError};
use duckdb::{AccessMode, Config, Connection};
use gpuwhy_confine::{Limits, Purpose, confine, die_with_parent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the process takes beside what DuckDB counts.
const BESIDE: u64 = 256 << 20;

/// One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) database: PathBuf,
    pub(super) temporary: PathBuf,
    pub(super) sql: String,
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) time_ms: u64,
    pub(super) memory_bytes: u64,
    pub(super) threads: usize,
    /// Of temporary files, as `8GB`.
    pub(super) max_temporary: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Rows { columns: Vec<String>, rows: Vec<Vec<Value>>, truncated: bool },
    Wrong(String),
    Slow,
}

/// What the hidden subcommand does.
pub fn sql_worker() -> ExitCode {
    // The server reads no more: neither does this.
    let _ = die_with_parent();
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let request = read.ok().and_then(|_| serde_json::from_str::<Request>(&line).ok());
    let Some(request) = request else {
        eprintln!("gpuwhy-fleet: this is run by the server, and not by hand");
        return ExitCode::from(2);
    };
    let answer = match limit(&request) {
        Ok(()) => answer(&request),
        Err(error) => Answer::Wrong(format!("a statement cannot be limited: {error}")),
    };
    let text = serde_json::to_vec(&answer).unwrap_or_default();
    match std::io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn limit(request: &Request) -> std::io::Result<()> {
    Limits {
        data: Some(request.memory_bytes + BESIDE),
        cpu_seconds: Some((request.time_ms / 1_000 + 2) * request.threads as u64),
        ..Limits::default()
    }
    .set()?;
    crate::gently::give_way();
    // Before DuckDB starts its threads. All it opens is in the folder of the snapshot.
    if let Some(folder) = request.database.parent() {
        confine(&Purpose::Database(folder.into()));
    }
    Ok(())
}

fn answer(request: &Request) -> Answer {
    let reach =
        Reach { rows: request.rows, bytes: request.bytes, time: Duration::from_millis(request.time_ms) };
    let rows = open(request)
        .map_err(|error| StoreError::Sql(ask::sentence(&error)))
        .and_then(|connection| ask::foreign(&connection, &request.sql, reach, &Stop::default()));
    match rows {
        Ok(Rows { columns, rows, truncated }) => Answer::Rows { columns, rows, truncated },
        Err(StoreError::Slow(_)) => Answer::Slow,
        Err(error) => Answer::Wrong(error.to_string()),
    }
}

fn open(request: &Request) -> duckdb::Result<Connection> {
    let config = Config::default()
        .access_mode(AccessMode::ReadOnly)?
        .enable_autoload_extension(false)?
        .with("autoinstall_known_extensions", "false")?
        .with("memory_limit", format!("{}MiB", request.memory_bytes >> 20))?
        .threads(request.threads as i64)?
        .with("temp_directory", request.temporary.display().to_string())?
        .with("max_temp_directory_size", &request.max_temporary)?
        // No statement reads or writes other files, attaches others, or loads code.
        .enable_external_access(false)?;
    let connection = Connection::open_with_flags(&request.database, config)?;
    connection.execute_batch("SET lock_configuration = true")?;
    Ok(connection)
}
