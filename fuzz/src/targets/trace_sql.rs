//! Statements of users and assistants over a trace: they must not change it, nor make files, whatever they say. An input is one.

use super::trace_base::BASES;
use crate::{Target, scratch};
use gpuwhy_store::{Limits, Reader};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const TARGET: Target = Target {
    name: "trace_sql",
    about: "SQL over a trace: the authorizer and the limits; nothing is changed and no file made (store)",
    run,
    words: &[
        "SELECT ",
        "WITH RECURSIVE ",
        "ATTACH '/dev/shm/gpuwhy-fuzz-made.db' AS a",
        "DETACH main",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = DELETE",
        "INSERT INTO sessions DEFAULT VALUES",
        "UPDATE calls SET pid = 0 RETURNING pid",
        "DELETE FROM calls",
        "DROP TABLE calls",
        "CREATE TEMP TABLE t(a)",
        "VACUUM INTO 'made.db'",
        "load_extension('x')",
        "writefile('made', 'x')",
        "FROM pragma_table_info('calls')",
        "FROM sqlite_master",
        "FROM schema_doc",
        "FROM cuda_events",
        "zeroblob(100000000)",
        "replace(hex(zeroblob(1000)), '0', hex(zeroblob(1000)))",
        "printf('%.*c', 1000000, 'x')",
        "EXPLAIN ",
        "; ",
        "--",
        "/*",
        "UNION ALL ",
        " OVER (PARTITION BY ",
        "json_each(",
        "generate_series(",
        "?1",
    ],
    runs: 8_000,
    most_bytes: 4 << 10,
};

struct Trace {
    folder: TempDir,
    reader: Reader,
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

fn open() -> Trace {
    let folder = scratch::folder();
    let path = folder.path().join("trace.db");
    fs::write(&path, &BASES[0].bytes).expect("a temporary file");
    Trace { reader: Reader::open(&path).expect("the trace opens"), folder }
}

fn run(bytes: &[u8]) {
    let limits = Limits { rows: 50, time: Duration::from_millis(50), bytes: 1 << 20, ..Limits::default() };
    TRACE.with_borrow_mut(|trace| {
        let trace = trace.get_or_insert_with(open);
        let answer = trace.reader.sql(&String::from_utf8_lossy(bytes), &limits);
        if let Ok(answer) = &answer {
            assert!(answer.rows.len() <= limits.rows);
        }
        check(trace.folder.path());
    });
}

fn check(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("the folder is read");
        let name = entry.file_name();
        assert!(name == "trace.db", "a file was made: {}", name.to_string_lossy());
        let unchanged = fs::read(entry.path()).expect("the trace is read") == BASES[0].bytes;
        assert!(unchanged, "the trace was changed");
    }
}
