//! A trace is written and read by threads that can open no file: what they need is open before.

use crate::made::{START, calls, session, writer};
use gpuwhy_confine::{Purpose, apart};
use gpuwhy_model::Facts;
use gpuwhy_store::{Limits, Options, Reader, StoreError, Writer, write_findings};
use std::fs::File;

#[test]
fn a_trace_is_written_without_opening_anything_and_closed_by_who_may() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    // Small enough for old rows to go, and the log to be copied, on the way.
    let options = Options { max_size: 4 << 20, ..Options::default() };
    let mut writer = Writer::create_or_append(&path, &session(), &crate::made::ops(), &options).unwrap();
    assert!(writer.has_all_files_open().unwrap());
    let (writer, opened) = apart("test-store", &Purpose::Write, || {
        for round in 0..60 {
            writer.write(&calls(round * 1000..round * 1000 + 1000), &Facts::default()).unwrap();
            writer.commit().unwrap();
        }
        (writer, File::open(&path).is_ok())
    })
    .unwrap();
    assert!(!opened);
    apart("test-files", &Purpose::Open(folder.path().into()), || writer.finish(START)).unwrap().unwrap();
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trace.db"], "no log is left");
    let reader = Reader::open(&path).unwrap();
    let rows = |sql: &str| reader.sql(sql, &Limits::default()).unwrap().rows;
    assert_eq!(rows("PRAGMA table_info(retention)").len().min(1), 1);
    assert!(reader.event_count().unwrap() > 1000, "{}", reader.event_count().unwrap());
    assert!(!rows("SELECT rows FROM retention").is_empty(), "old rows went");
}

#[test]
fn a_trace_is_read_without_opening_anything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer.write(&calls(0..20_000), &Facts::default()).unwrap();
    writer.commit().unwrap();
    let reader = Reader::open_ahead(&path, 1).unwrap();
    // Written after it was opened: seen all the same.
    writer.write(&calls(20_000..21_000), &Facts::default()).unwrap();
    writer.commit().unwrap();
    let read = move || {
        let count = |reader: &Reader| reader.event_count();
        let both = reader.at_one_moment_with::<_, StoreError>(1, |others| {
            Ok((count(&reader)?, others.iter().map(count).collect::<Result<Vec<_>, _>>()?))
        });
        let sorted = "SELECT count(*) FROM (SELECT DISTINCT timestamp_ns, zeroblob(1000) FROM cuda_events ORDER BY -timestamp_ns)";
        (both, reader.sql(sorted, &Limits::default()).map(|answer| answer.rows.len()))
    };
    let (both, sorted) = apart("test-reader", &Purpose::Compute, read).unwrap();
    assert_eq!(both.unwrap(), (21_000, vec![21_000]));
    assert_eq!(sorted.unwrap(), 1, "more than the cache has room for, and no file for the rest");
    writer.finish(START).unwrap();
    apart("test-files", &Purpose::Open(folder.path().into()), || write_findings(&path, &[]))
        .unwrap()
        .unwrap();
}
