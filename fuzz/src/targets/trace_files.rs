//! Trace files: ours, older ones and those of Ingero. An input is which file, what is asked of it, and patches: a place, a length,
//! bytes. An input that begins as SQLite's files do is a whole file.

use super::Input;
use super::trace_base::BASES;
use crate::{Target, scratch};
use gpuwhy_query::{ENDPOINTS, ExplainRequest, explain};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::Value;
use std::fs;

pub(crate) const TARGET: Target = Target {
    name: "trace_files",
    about: "trace files, also of the first schema and of Ingero: opened, asked every question, appended to (store, query, cause)",
    run,
    words: &[
        "SQLite format 3\0",
        "CREATE TABLE ",
        "CREATE VIEW ",
        "calls",
        "call_stats",
        "sessions",
        "schema_info",
    ],
    runs: 150,
    most_bytes: 16 << 10,
};

/// The writer takes the file for another session.
const APPENDS: u8 = 0x80;

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let whole = bytes.starts_with(b"SQLite format 3\0").then(|| bytes.to_vec());
    let (which, asked) = (input.byte(), input.byte());
    let bytes = whole.unwrap_or_else(|| patched(which, &mut input));
    scratch::with_folder(|folder| {
        let path = folder.join("trace.db");
        for suffix in ["-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(folder.join(format!("trace.db{suffix}")));
        }
        fs::write(&path, &bytes).expect("a temporary file");
        if which & APPENDS != 0 {
            // Refused in a sentence, or a session more.
            if let Ok(writer) =
                Writer::create_or_append(&path, &SessionInfo::default(), &[], &Options::default())
            {
                let _ = writer.finish(1_900_000_000_000_000_000);
            }
        }
        let Ok(reader) = Reader::open(&path) else { return };
        let _ = explain(&reader, &ExplainRequest::default());
        let endpoint = &ENDPOINTS[usize::from(asked) % ENDPOINTS.len()];
        let _ = (endpoint.run)(&reader, Value::Null);
    });
}

fn patched(which: u8, input: &mut Input<'_>) -> Vec<u8> {
    let base = &BASES[usize::from(which & !APPENDS) % BASES.len()];
    let mut bytes = base.bytes.clone();
    while !input.0.is_empty() {
        let at = base.used[input.u32() as usize % base.used.len()] as usize;
        let length = usize::from(input.byte());
        let patch = input.take(length);
        let end = (at + patch.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&patch[..end - at]);
    }
    bytes
}
