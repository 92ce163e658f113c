//! Limits hold for every file, whoever made it and with whatever.

use crate::made::writer;
use gpuwhy_store::{Limits, Reader, StoreError, schema};
use rusqlite::Connection;
use std::path::Path;

const INGERO: &str = include_str!("ingero.sql");
const ENDLESS_SORT: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                            SELECT i, zeroblob(1000000) AS b FROM n ORDER BY i DESC";

/// A file of today, one of version 1 and one of another tool.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let today = folder.join("today.db");
    writer(&today).finish(1).unwrap();
    let (old, other) = (folder.join("old.db"), folder.join("other.db"));
    Connection::open(&old).unwrap().execute_batch(include_str!("v1.sql")).unwrap();
    Connection::open(&other).unwrap().execute_batch(INGERO).unwrap();
    vec![today, old, other]
}

#[test]
fn sorting_spills_to_files_that_are_limited_whoever_made_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let reader = Reader::open(&path).unwrap();
        let limits = Limits { spill: 64 << 20, ..Limits::default() };
        let said = reader.sql(ENDLESS_SORT, &limits).unwrap_err();
        assert!(matches!(said, StoreError::TooLarge(_)), "{}: {said}", path.display());
        assert!(said.to_string().contains("64 MiB of temporary files"), "{said}");
    }
}

#[test]
fn texts_that_have_to_be_converted_are_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.db");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "encoding", "UTF-16").unwrap();
    schema::create(&db).unwrap();
    drop(db);
    let said = Reader::open(&path).unwrap_err();
    assert!(said.to_string().contains("its texts are UTF-16"), "{said}");
}
