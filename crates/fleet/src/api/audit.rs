//! The audit log: who asked what and what became of it, a line of JSON each. No token is ever in it.

use crate::clock::now_ns;
use gpuwhy_door::Peer;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A full log becomes `audit.log.1`, and the one before that goes.
const LARGEST: u64 = 64 << 20;
/// No entry is longer: all of its words are cut.
const LONGEST: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Audit {
    path: PathBuf,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    file: File,
    bytes: u64,
}

/// What is written of a request.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) peer: Option<Peer>,
    /// Of its digest, enough to tell it from others.
    pub(crate) token: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tool: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) took_ms: u64,
}

impl Audit {
    pub(crate) fn open(folder: &Path) -> std::io::Result<Audit> {
        let path = folder.join("audit.log");
        let log = Mutex::new(opened(&path)?);
        Ok(Audit { path, log })
    }

    /// That it cannot be written is said; nobody is refused for it.
    pub(crate) fn write(&self, entry: &Entry<'_>) {
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        let line = json!({
            "at_ns": now_ns(), "peer": entry.peer.map(|peer| peer.0.to_string()), "token": entry.token,
            "method": entry.method, "path": cut(entry.path), "tool": entry.tool.map(cut), "status": entry.status,
            "took_ms": entry.took_ms,
        });
        if let Err(error) = self.append(&format!("{line}\n")) {
            eprintln!("gpuwhy-fleet: the audit log cannot be written: {error}");
        }
    }

    /// The newest entries, the newest first; of the log before this one where this one has too few.
    pub(crate) fn newest(&self, most: usize) -> std::io::Result<Vec<Value>> {
        let mut found = entries(&self.path, most)?;
        if found.len() < most {
            let before = entries(&self.path.with_extension("log.1"), most - found.len());
            found.extend(before.unwrap_or_default());
        }
        Ok(found)
    }

    fn append(&self, line: &str) -> std::io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.bytes > LARGEST {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *log = opened(&self.path)?;
        }
        log.bytes += line.len() as u64;
        log.file.write_all(line.as_bytes())
    }
}

/// Of the end of a log.
fn entries(path: &Path, most: usize) -> std::io::Result<Vec<Value>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(most as u64 * LONGEST);
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // The first line may have been cut.
    let lines = text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok(lines.take(most).collect())
}

fn opened(path: &Path) -> std::io::Result<Log> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Log { file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_come_first_and_from_the_log_before_where_there_are_few() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        let ask = |path: &str| {
            let (method, status, took_ms) = ("GET", 200, 1);
            audit.write(&Entry { peer: None, token: None, method, path, tool: None, status, took_ms });
        };
        ask("/first");
        std::fs::rename(folder.path().join("audit.log"), folder.path().join("audit.log.1")).unwrap();
        audit.log.lock().unwrap().file = opened(&audit.path).unwrap().file;
        for number in 0..50 {
            ask(&format!("/{number} {}", "x".repeat(300)));
        }
        let paths = |most| -> Vec<String> {
            let found = audit.newest(most).unwrap();
            found.iter().map(|one| one["path"].as_str().unwrap().split(' ').next().unwrap().into()).collect()
        };
        assert_eq!(paths(2), ["/49", "/48"]);
        let all = paths(60);
        assert_eq!((all.len(), all[49].as_str(), all[50].as_str()), (51, "/0", "/first"));
    }
}
