//! `gpuwhy explain-worker`: explains a trace that is being made, or was, in a process without privileges that ends with it. Started by
//! `trace`, which asks on standard input and reads the explanation as JSON.

use crate::failure::Failure;
use gpuwhy_confine::{Limits, Parser, Purpose, confine, die_with_parent};
use gpuwhy_model::Finding;
use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::{Reader, StoreError, write_findings};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The hidden subcommand.
pub(crate) const WORKER: &str = "explain-worker";
const NAME: &std::ffi::CStr = c"gpuwhy-explain";
/// Opens the file, and writes to it.
const FILES: &str = "gpuwhy-files";
/// What is shown while a trace runs is of the last minute.
const LOOK_BACK: &str = "60s";
/// A trace that was stopped has to end within a second: of a larger file the last minute is explained.
const LARGE_FILE: u64 = 256 << 20;
/// Said of such an answer. What looks at all of it is for who knows who reads it: root or not.
pub(crate) const OF_LAST_MINUTE: &str = "answer: of the last minute, as the trace is large";
/// An explanation reads a large trace by two readers.
const OTHERS: usize = 2;
const LIMITS: Limits =
    Limits { address_space: Some(3 << 30), data: None, cpu_seconds: Some(300), file_size: None };

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// The last minute.
    Recent,
    /// The session that began then; its findings are kept in the file.
    Conclude { start_ns: u64 },
}

pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    LIMITS.set()?;
    // Where that fails, `ps` shows another name.
    let _ = rustix::thread::set_name(NAME);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    // Files of root's are opened by a thread that reads nothing of them but what opening takes; this one gives all of that up.
    let files = Parser::start(FILES, Purpose::Open(folder));
    let path = file.to_path_buf();
    let opened = files.parse(move || open(&path));
    confine(&Purpose::Compute);
    die_with_parent()?;
    let failed = || Failure::Failed("the trace could not be opened".into());
    let (reader, is_large) = opened.ok_or_else(failed)??;
    let mut question = Vec::new();
    std::io::stdin().lock().take(1 << 10).read_to_end(&mut question)?;
    let question: Question = serde_json::from_slice(&question)?;
    let explained = answer(&reader, &question, is_large);
    if let Question::Conclude { .. } = question {
        drop(reader);
        // Done where there are none, too: only who may write can put away the log that readers left behind.
        let findings: Vec<Finding> =
            explained.as_ref().map_or_else(|_| Vec::new(), |explained| explained.findings.clone());
        let path = file.to_path_buf();
        let _ = files.parse(move || write_findings(&path, &findings));
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &explained?)?;
    Ok(out.flush()?)
}

fn open(path: &Path) -> Result<(Reader, bool), StoreError> {
    let is_large = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > LARGE_FILE);
    Ok((Reader::open_ahead(path, OTHERS)?, is_large))
}

fn answer(reader: &Reader, question: &Question, is_large: bool) -> Result<Explained, Failure> {
    let (since, from_ns) = match question {
        Question::Recent => (Some(LOOK_BACK), None),
        Question::Conclude { start_ns } => (is_large.then_some(LOOK_BACK), Some(*start_ns)),
    };
    // A file of one session is explained as `gpuwhy explain` does it: all of it.
    let sessions = reader.sessions()?.len();
    let request = ExplainRequest {
        since: since.map(ToString::to_string),
        from_ns: from_ns.filter(|_| sessions > 1),
        ..ExplainRequest::default()
    };
    let mut explained = explain(reader, &request)?;
    if is_large && matches!(question, Question::Conclude { .. }) {
        explained.coverage.degraded.insert(0, OF_LAST_MINUTE.into());
    }
    Ok(explained)
}
