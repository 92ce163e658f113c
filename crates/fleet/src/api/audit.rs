//! The audit log: who asked what and what became of it, a line of JSON each. No token is ever in it.
//!
//! What tokens did is in `audit.log`. What was refused, and those who showed no token, is in `refused.log`, where it is listed only
//! as far as few lines will do, and counted beyond: nobody can make anything else disappear by being refused.

use super::refusals::Refusals;
use crate::clock::now_ns;
use gpuwhy_door::Peer;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A full log becomes `audit.log.1`, and the one before that goes.
const LARGEST: u64 = 64 << 20;
/// No entry is longer: all of its words are cut.
const LONGEST: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Audit {
    allowed: Log,
    refused: Log,
    refusals: Mutex<Refusals>,
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

impl Entry<'_> {
    fn json(&self, at_ns: i64) -> Value {
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        json!({
            "at_ns": at_ns, "peer": self.peer.map(|peer| peer.0.to_string()), "token": self.token,
            "method": cut(self.method), "path": cut(self.path), "tool": self.tool.map(cut), "status": self.status,
            "took_ms": self.took_ms,
        })
    }
}

impl Audit {
    pub(crate) fn open(folder: &Path) -> std::io::Result<Audit> {
        Ok(Audit {
            allowed: Log::open(folder.join("audit.log"))?,
            refused: Log::open(folder.join("refused.log"))?,
            refusals: Mutex::default(),
        })
    }

    /// What a token did, as often as it may do something: the rate limit has let it through.
    pub(crate) fn write(&self, entry: &Entry<'_>) {
        self.allowed.write(&entry.json(now_ns()));
    }

    /// What nobody limits but this: it is listed or counted.
    pub(crate) fn refuse(&self, entry: &Entry<'_>) {
        self.refuse_at(entry, now_ns());
    }

    fn refuse_at(&self, entry: &Entry<'_>, at_ns: i64) {
        let (over, is_listed) = {
            let mut refusals = self.refusals();
            (refusals.over(at_ns), refusals.is_listed(entry.peer, entry.status, at_ns))
        };
        over.iter().for_each(|line| self.refused.write(line));
        if is_listed {
            self.refused.write(&entry.json(at_ns));
        }
    }

    /// Writes down what was counted in a minute that is over.
    pub(crate) fn settle(&self) {
        let over = self.refusals().over(now_ns());
        over.iter().for_each(|line| self.refused.write(line));
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest entries of tokens, the newest first.
    pub(crate) fn newest(&self, max: usize) -> std::io::Result<Vec<Value>> {
        self.allowed.newest(max)
    }

    /// The same of what was refused, sums included.
    pub(crate) fn newest_refused(&self, max: usize) -> std::io::Result<Vec<Value>> {
        self.refused.newest(max)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let over = self.refusals().ended(now_ns());
        over.iter().for_each(|line| self.refused.write(line));
    }
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl Log {
    fn open(path: PathBuf) -> std::io::Result<Log> {
        let open = Mutex::new(opened(&path)?);
        Ok(Log { path, open })
    }

    /// That it cannot be written is said; nobody is refused for it.
    fn write(&self, line: &Value) {
        if let Err(error) = self.append(&format!("{line}\n")) {
            crate::log::log!("{} cannot be written: {error}", self.path.display());
        }
    }

    fn append(&self, line: &str) -> std::io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.bytes > LARGEST {
            std::fs::rename(&self.path, self.before())?;
            *open = opened(&self.path)?;
        }
        open.bytes += line.len() as u64;
        open.file.write_all(line.as_bytes())
    }

    fn before(&self) -> PathBuf {
        self.path.with_extension("log.1")
    }

    /// Of the log before this one where this one has too few.
    fn newest(&self, max: usize) -> std::io::Result<Vec<Value>> {
        let mut found = entries(&self.path, max)?;
        if found.len() < max {
            let before = entries(&self.before(), max - found.len());
            found.extend(before.unwrap_or_default());
        }
        Ok(found)
    }
}

/// Of the end of a log.
fn entries(path: &Path, max: usize) -> std::io::Result<Vec<Value>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(max as u64 * LONGEST);
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // The first line may have been cut.
    let lines = text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok(lines.take(max).collect())
}

fn opened(path: &Path) -> std::io::Result<Open> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Open { file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(peer: Option<Peer>, path: &'a str, status: u16) -> Entry<'a> {
        Entry { peer, token: None, method: "GET", path, tool: None, status, took_ms: 1 }
    }

    #[test]
    fn the_newest_entries_come_first_and_from_the_log_before_where_there_are_few() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        let ask = |path: &str| audit.write(&entry(None, path, 200));
        ask("/first");
        std::fs::rename(folder.path().join("audit.log"), folder.path().join("audit.log.1")).unwrap();
        audit.allowed.open.lock().unwrap().file = opened(&audit.allowed.path).unwrap().file;
        for number in 0..50 {
            ask(&format!("/{number} {}", "x".repeat(300)));
        }
        let paths = |max| -> Vec<String> {
            let found = audit.newest(max).unwrap();
            found.iter().map(|one| one["path"].as_str().unwrap().split(' ').next().unwrap().into()).collect()
        };
        assert_eq!(paths(2), ["/49", "/48"]);
        let all = paths(60);
        assert_eq!((all.len(), all[49].as_str(), all[50].as_str()), (51, "/0", "/first"));
    }

    /// As 480,000 requests in ten seconds were, from one address and from very many.
    #[test]
    fn half_a_million_refusals_are_a_few_lines_and_erase_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        audit.write(&entry(None, "/what-was-allowed", 200));
        let long = "/".repeat(4_000);
        for number in 0..480_000u32 {
            let peer = match number % 2 {
                0 => Peer(([10, 0, 0, 1], 1).into()),
                _ => Peer((std::net::Ipv4Addr::from(number), 1).into()),
            };
            audit.refuse_at(&entry(Some(peer), &long, 401), i64::from(number) * 20_833);
        }
        drop(audit);
        let length = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(length("refused.log") < 100_000, "{}", length("refused.log"));
        assert!(!folder.path().join("refused.log.1").exists());
        let audit = Audit::open(folder.path()).unwrap();
        assert_eq!(audit.newest(10).unwrap()[0]["path"], "/what-was-allowed");
        let counted = |line: &Value| line["count"].as_u64().unwrap_or(1);
        assert_eq!(audit.newest_refused(10_000).unwrap().iter().map(counted).sum::<u64>(), 480_000);
    }
}
