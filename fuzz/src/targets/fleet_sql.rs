//! Statements of users and assistants over a fleet's store: they must not change it, nor bring it down. An input is one.

use crate::{Target, scratch};
use gpuwhy_fleet_core::store::{Reach, Stop, Store};
use gpuwhy_fleet_core::{DuckOptions, DuckStore};
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const TARGET: Target = Target {
    name: "fleet_sql",
    about: "SQL over a fleet's store: one SELECT and nothing else; rows stay and the store goes on (fleet)",
    run,
    words: &[
        "SELECT ",
        "FROM events",
        "FROM collectives",
        "FROM findings",
        "FROM nodes",
        "WITH a AS MATERIALIZED (",
        "'); DELETE FROM events; --",
        "DELETE FROM events RETURNING *",
        "INSERT INTO nodes SELECT * FROM nodes",
        "DROP TABLE events",
        "ATTACH 'made.db'",
        "COPY events TO 'made.csv'",
        "FROM read_csv('/etc/hostname')",
        "FROM read_text('/etc/hostname')",
        "FROM glob('/*')",
        "FROM query('SELECT 1')",
        "FROM query_table('events')",
        "SET threads = 9",
        "PRAGMA enable_profiling",
        "INSTALL httpfs",
        "LOAD json",
        "COMMIT",
        "getenv('HOME')",
        "current_setting('threads')",
        "duckdb_settings()",
        "range(1000000)",
        "repeat('x', 1000000)",
        "SUMMARIZE ",
        "PIVOT events ON rank",
        "$1",
        "''",
        ";",
        "--",
    ],
    // A process each.
    runs: 40,
    most_bytes: 4 << 10,
};

const ROWS: u64 = 100;

struct Fleet {
    store: DuckStore,
    _folder: TempDir,
}

/// The program that runs statements, where it is another than this one: `gpuwhy-fuzz`.
pub static WORKER: OnceLock<PathBuf> = OnceLock::new();

/// One for all threads: the folder is locked by it.
static FLEET: LazyLock<Fleet> = LazyLock::new(|| {
    let folder = scratch::folder();
    let options = DuckOptions {
        memory: "256MB".into(),
        threads: 1,
        temporary: "64MB".into(),
        worker: WORKER.get().cloned(),
        ..DuckOptions::default()
    };
    let store = DuckStore::open(folder.path(), options).expect("the store opens");
    store.fill(ROWS).expect("the store is filled");
    Fleet { store, _folder: folder }
});

fn run(bytes: &[u8]) {
    let ask =
        |sql: &str, time| FLEET.store.sql(sql, Reach { rows: 50, bytes: 1 << 20, time }, &Stop::default());
    if let Ok(rows) = ask(&String::from_utf8_lossy(bytes), Duration::from_millis(500)) {
        assert!(rows.rows.len() <= 50);
    }
    let left = ask("SELECT count(*) FROM events", Duration::from_secs(30));
    let left = left.map(|rows| rows.rows[0][0].to_string()).unwrap_or_else(|error| error.to_string());
    assert_eq!(left, ROWS.to_string(), "the store has lost rows or does not answer");
}
