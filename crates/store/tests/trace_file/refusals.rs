//! Files that are not traces: told apart in words, and left as they are.

use crate::made::{calls, ops, session, writer};
use gpuwhy_model::Facts;
use gpuwhy_store::schema::SCHEMA_VERSION;
use gpuwhy_store::{Limits, Options, Reader, StoreError, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file of a folder with its bytes and its time.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            (path.clone(), (std::fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap()))
        })
        .collect()
}

fn trace(path: &Path) -> Vec<u8> {
    let mut writer = writer(path);
    writer.write(&calls(0..2000), &Facts::default()).unwrap();
    writer.finish(1).unwrap();
    std::fs::read(path).unwrap()
}

/// What reader and writer say to these bytes.
fn refused(bytes: &[u8]) -> [StoreError; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.db");
    std::fs::write(&path, bytes).unwrap();
    let before = snapshot(folder.path());
    let reader = Reader::open(&path).map(drop).unwrap_err();
    let writer =
        Writer::create_or_append(&path, &session(), &ops(), &Options::default()).map(drop).unwrap_err();
    assert_eq!(snapshot(folder.path()), before, "a refused file was changed");
    for error in [&reader, &writer] {
        let words = error.to_string();
        assert!(words.contains("some.db") && words.contains(';') && !words.contains('\n'), "{words}");
    }
    [reader, writer]
}

#[test]
fn text_and_noise_are_no_database() {
    for bytes in [&b"hello, this is a log file\n"[..], &[0xab; 10_000], b"SQLite format 3\0 and nothing more"]
    {
        for error in refused(bytes) {
            assert!(matches!(error, StoreError::NotADatabase { .. }), "{error}");
        }
    }
}

#[test]
fn other_databases_are_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE cuda_events (timestamp INTEGER, pid INTEGER)").unwrap();
    drop(db);
    for error in refused(&std::fs::read(&path).unwrap()) {
        assert!(error.to_string().contains("is an SQLite file but not a gpuwhy trace"), "{error}");
    }
}

#[test]
fn a_newer_schema_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    trace(&path);
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", SCHEMA_VERSION + 1)
        .unwrap();
    for error in refused(&std::fs::read(&path).unwrap()) {
        assert!(matches!(error, StoreError::Newer { found, .. } if found == SCHEMA_VERSION + 1), "{error}");
        assert!(error.to_string().contains("update gpuwhy"), "{error}");
    }
}

#[test]
fn cut_files_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = trace(&folder.path().join("whole.db"));
    for part in [8192, bytes.len() / 2, bytes.len() - 8192, bytes.len() - 100] {
        for error in refused(&bytes[..part]) {
            assert!(matches!(error, StoreError::Damaged { .. }), "{part} bytes: {error}");
        }
    }
}

#[test]
fn overwritten_pages_are_reported_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holes.db");
    let mut bytes = trace(&path);
    let length = bytes.len();
    bytes[length / 2..].fill(0x5a);
    std::fs::write(&path, &bytes).unwrap();
    let message = Reader::open(&path)
        .and_then(|reader| reader.sql("SELECT sum(duration_ns) FROM calls", &Limits::default()));
    let error = message.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn missing_empty_and_odd_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    assert!(matches!(Reader::open(&path).unwrap_err(), StoreError::NotFound { .. }));
    assert!(!path.exists());
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(Reader::open(&path).unwrap_err(), StoreError::Empty { .. }));
    assert!(matches!(Reader::open(folder.path()).unwrap_err(), StoreError::Folder { .. }));
    let writer = Writer::create_or_append(folder.path(), &session(), &ops(), &Options::default());
    assert!(matches!(writer.unwrap_err(), StoreError::Folder { .. }));
    assert!(matches!(Reader::open(Path::new("/dev/null")).unwrap_err(), StoreError::Unreadable { .. }));
    let pipe = folder.path().join("pipe");
    if Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        assert!(matches!(Reader::open(&pipe).unwrap_err(), StoreError::Unreadable { .. }));
    }
}

#[test]
fn reading_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:odd?name=1.db");
    trace(&path);
    let before = snapshot(folder.path());
    let reader = Reader::open(&path).unwrap();
    reader.sql("SELECT * FROM events ORDER BY duration_ns", &Limits::default()).unwrap();
    reader.coverage(None).unwrap();
    drop(reader);
    assert_eq!(snapshot(folder.path()), before);
}
