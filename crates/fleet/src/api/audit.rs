//! The audit log: who asked what and what became of it, a line of JSON each. No token is ever in it.

use crate::clock::now_ns;
use gpuwhy_door::Peer;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A full log becomes `audit.log.1`, and the one before that goes.
const LARGEST: u64 = 64 << 20;

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

fn opened(path: &Path) -> std::io::Result<Log> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Log { file, bytes })
}
