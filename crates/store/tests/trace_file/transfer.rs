//! A trace as rows on the way to another host: nothing gets lost, and nothing that is no trace becomes one.

use crate::made::{START, calls, lines, ops, session};
use crate::merge::fill;
use gpuwhy_model::Facts;
use gpuwhy_store::schema::TABLES;
use gpuwhy_store::transfer::{Receiver, TransferError, send};
use gpuwhy_store::{Options, Reader, Writer};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MAX: u64 = 1 << 30;

fn trace(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("node.db");
    let mut writer = Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap();
    writer.write(&calls(0..100), &Facts::default()).unwrap();
    writer.finish(START + 1_000_000_000).unwrap();
    path
}

fn sent(path: &Path, from_ns: Option<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    send(&Reader::open(path).unwrap(), from_ns, &mut bytes, &|_| true).unwrap();
    bytes
}

/// What becomes of these bytes, in pieces of so many.
fn received(bytes: &[u8], piece: usize, most: u64) -> Result<(TempDir, Reader), TransferError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("here.db");
    let mut receiver = Receiver::new(&path, most)?;
    for piece in bytes.chunks(piece) {
        receiver.take(piece)?;
    }
    receiver.finish()?;
    let reader = Reader::open(&path).unwrap();
    Ok((folder, reader))
}

#[test]
fn every_row_of_every_table_arrives_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    fill(&path);
    let before = Reader::open(&path).unwrap();
    for piece in [1, 7, 1 << 20] {
        let (_folder, after) = received(&sent(&path, None), piece, MAX).unwrap();
        for table in TABLES.iter().filter(|table| !["hist_buckets", "schema_doc"].contains(&table.name)) {
            let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let sql = format!("SELECT {} FROM {}", columns.join(", "), table.name);
            let rows = lines(&before, &sql);
            assert_eq!(lines(&after, &sql), rows, "{}", table.name);
            assert!(rows.len() >= 3, "{}", table.name);
        }
    }
}

#[test]
fn a_part_has_what_is_newer_and_what_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let (_folder, part) = received(&sent(&path, Some(START + 60_000)), 4096, MAX).unwrap();
    let kept = "SELECT count(*), min(timestamp_ns) FROM calls";
    assert_eq!(lines(&part, kept), ["40|+60000"]);
    let ops = "SELECT * FROM ops ORDER BY 1";
    assert_eq!(lines(&part, ops), lines(&Reader::open(&path).unwrap(), ops));
}

#[test]
fn what_is_written_meanwhile_is_not_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    // As it is while it is traced; and enough calls that a piece is full before the losses are read.
    let tracing = Connection::open(&path).unwrap();
    tracing
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TEMP TABLE t AS SELECT * FROM calls;
             INSERT INTO calls SELECT c.* FROM t c, t d;",
        )
        .unwrap();
    let reader = Reader::open(&path).unwrap();
    // The first bytes are there when another row is written.
    struct Writes<'a>(Vec<u8>, Option<&'a Path>);
    impl std::io::Write for Writes<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if let Some(path) = self.1.take() {
                let db = Connection::open(path).unwrap();
                db.execute_batch(
                    "INSERT INTO loss (start_ns, end_ns, probe, count, session_id) VALUES (1, 2, 'x', 3, 1)",
                )
                .unwrap();
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut out = Writes(Vec::new(), Some(&path));
    send(&reader, None, &mut out, &|_| true).unwrap();
    assert!(out.1.is_none());
    let (_folder, after) = received(&out.0, 1 << 16, MAX).unwrap();
    assert_eq!(lines(&after, "SELECT count(*) FROM loss"), ["0"]);
    assert_eq!(lines(&reader, "SELECT count(*) FROM loss"), ["1"]);
}

#[test]
fn what_is_cut_or_goes_on_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = sent(&trace(&folder), None);
    for length in [0, 3, 40, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(received(&bytes[..length], 512, MAX), Err(TransferError::Cut)), "{length}");
    }
    let twice = [bytes.as_slice(), &bytes].concat();
    assert!(matches!(received(&twice, 512, MAX), Err(TransferError::NotATrace(_))));
    assert!(matches!(received(&bytes, 512, 1000), Err(TransferError::TooLarge { limit: 1000 })));
}

/// A record as it is on the way.
fn record(kind: u8, what: &[u8]) -> Vec<u8> {
    [&(what.len() as u32 + 1).to_le_bytes()[..], &[kind], what].concat()
}

#[test]
fn hostile_bytes_become_nothing() {
    let begin = record(b'B', br#"{"format": 1, "schema": 1}"#);
    let table = |words: &str| [begin.clone(), record(b'T', words.as_bytes())].concat();
    let losses = table(r#"{"table": "loss", "columns": ["start_ns"]}"#);
    let row = |values: &[u8]| [losses.clone(), record(b'R', values)].concat();
    for (bytes, why) in [
        (b"HTTP/1.1 200 OK\r\n\r\n<html></html>".to_vec(), "a record of"),
        (record(b'R', &[]), "does not begin"),
        ([begin.clone(), record(b'?', &[])].concat(), "kind 63"),
        ([begin.clone(), record(b'R', &[0])].concat(), "no table"),
        (table("{"), "EOF"),
        (table(r#"{"table": "sqlite_master", "columns": []}"#), "no trace has"),
        (table(r#"{"table": "schema_doc", "columns": []}"#), "no trace has"),
        (table(r#"{"table": "loss; DROP TABLE calls", "columns": []}"#), "no trace has"),
        (table(r#"{"table": "loss", "columns": ["start_ns) SELECT 1 --"]}"#), "has not"),
        (table(r#"{"table": "loss", "columns": ["start_ns", "start_ns"]}"#), "has not"),
        (row(&[3, 1, b'x']), "another kind"),
        (row(&[1]), "cut"),
        (row(&[1, 1, 0]), "too long"),
        (row(&[0]), "NOT NULL"),
    ] {
        match received(&bytes, 5, MAX) {
            Err(TransferError::NotATrace(message)) => {
                assert!(message.contains(why), "{message} instead of {why}");
            }
            other => panic!("{why}: {other:?}"),
        }
    }
    let newer = record(b'B', br#"{"format": 1, "schema": 999}"#);
    assert!(matches!(received(&newer, 5, MAX), Err(TransferError::Newer { found: 999 })));
    let broken = [begin, record(b'X', b"the disk is on fire")].concat();
    let message = received(&broken, 5, MAX).unwrap_err().to_string();
    assert!(message.contains("the disk is on fire"), "{message}");
}
