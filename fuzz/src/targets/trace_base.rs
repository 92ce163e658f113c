//! Trace files to damage: a recording of a real program with most of its rows taken out, one of the first schema, and one of Ingero.

use crate::scratch;
use flate2::read::GzDecoder;
use rusqlite::Connection;
use std::fs;
use std::io::Read;
use std::sync::LazyLock;

/// A file, and where in it something is: damage to the gaps between tells nothing.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) bytes: Vec<u8>,
    pub(crate) used: Vec<u32>,
}

/// In the order that inputs of the corpus count in.
pub(crate) static BASES: LazyLock<[Base; 3]> = LazyLock::new(|| [recording(), first_schema(), ingero()]);

/// Rows of a table that stay.
const ROWS: u32 = 12;

static RECORDING: &[u8] = include_bytes!("../../../crates/query/tests/recordings/launch_bound.db.gz");
static FIRST_SCHEMA: &str = include_str!("../../../crates/store/tests/trace_file/v1.sql");
static INGERO: [&str; 2] =
    [include_str!("../../../crates/store/tests/trace_file/ingero.sql"), include_str!("../../ingero.sql")];

fn recording() -> Base {
    let mut bytes = Vec::new();
    GzDecoder::new(RECORDING).read_to_end(&mut bytes).expect("the recording is unpacked");
    made(Some(&bytes), |db| {
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let mut statement = db.prepare(tables)?;
        let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for table in tables.iter().filter(|table| *table != "hist_buckets") {
            db.execute(
                &format!("DELETE FROM {table} WHERE rowid NOT IN (SELECT rowid FROM {table} LIMIT {ROWS})"),
                [],
            )
            // Tables without row ids are small.
            .ok();
        }
        Ok(())
    })
}

fn first_schema() -> Base {
    made(None, |db| db.execute_batch(FIRST_SCHEMA))
}

fn ingero() -> Base {
    made(None, |db| INGERO.iter().try_for_each(|part| db.execute_batch(part)))
}

fn made(bytes: Option<&[u8]>, fill: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Base {
    let folder = scratch::folder();
    let path = folder.path().join("base.db");
    if let Some(bytes) = bytes {
        fs::write(&path, bytes).expect("a temporary file");
    }
    let db = Connection::open(&path).expect("a database");
    fill(&db).expect("the database is filled");
    db.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM")
        .expect("the database is made small");
    drop(db);
    let bytes = fs::read(&path).expect("a temporary file");
    let used = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at as u32).collect();
    Base { bytes, used }
}
