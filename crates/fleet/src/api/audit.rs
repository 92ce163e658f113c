//! The audit log: who asked what and what became of it, a line of JSON each. No secret is ever in it.
//!
//! What a token did is in `audit/TOKEN.log` (of its digest the beginning), so that no token makes anything of another disappear. What
//! was refused, and those who showed no token, is in `refused.log`. Both are listed only as far as few lines will do, and counted beyond.

use super::refusals::Refusals;
use super::uses::Uses;
use crate::clock::now_ns;
use gpuwhy_http::Peer;
use serde_json::{Value, json};
use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A full log becomes `NAME.log.1`, and the one before that goes.
const MAX_LOG_BYTES: u64 = 32 << 20;
/// Of all tokens together, as far as each has some.
const MAX_BYTES: u64 = 1 << 30;
const MIN_LOG_BYTES: u64 = 256 << 10;
/// No entry is longer: all of its words are cut.
const MAX_ENTRY_BYTES: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Audit {
    /// A log for each token.
    folder: PathBuf,
    log_bytes: u64,
    uses: Mutex<Uses>,
    refused: PathBuf,
    refusals: Mutex<Refusals>,
    /// A line is written at a time.
    writing: Mutex<()>,
}

/// What is written of a request.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) peer: Option<Peer>,
    /// Of its digest, enough to tell it from others; hexadecimal digits.
    pub(crate) token: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tool: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) took_ms: u64,
}

impl Entry<'_> {
    fn json(&self, at_ns: i64) -> Value {
        json!({
            "at_ns": at_ns, "peer": self.peer.map(|peer| peer.0.to_string()), "token": self.token,
            "method": cut(self.method), "path": cut(self.path), "tool": self.tool.map(cut), "status": self.status,
            "took_ms": self.took_ms,
        })
    }
}

impl Audit {
    /// In the folder of the store, for so many tokens.
    pub(crate) fn open(data: &Path, tokens: usize) -> std::io::Result<Audit> {
        let folder = data.join("audit");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // Each has a log and the one before it.
        let log_bytes = MAX_BYTES / 2 / tokens.max(1) as u64;
        Ok(Audit {
            folder,
            log_bytes: log_bytes.clamp(MIN_LOG_BYTES, MAX_LOG_BYTES),
            uses: Mutex::default(),
            refused: data.join("refused.log"),
            refusals: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    /// What a token did: it is listed or counted.
    pub(crate) fn write(&self, token: &str, entry: &Entry<'_>) {
        self.write_at(token, entry, now_ns());
    }

    fn write_at(&self, token: &str, entry: &Entry<'_>, at_ns: i64) {
        let (over, is_listed) = {
            let mut uses = self.uses();
            let what = entry.tool.unwrap_or(entry.path);
            (uses.over(at_ns), uses.is_listed(token, &cut(what), entry.status, at_ns))
        };
        self.append_uses(&over);
        if is_listed {
            self.append(&self.log_of(token), &entry.json(at_ns));
        }
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
        over.iter().for_each(|line| self.append(&self.refused, line));
        if is_listed {
            self.append(&self.refused, &entry.json(at_ns));
        }
    }

    /// Writes down what was counted in a minute that is over.
    pub(crate) fn settle(&self) {
        let (uses, refusals) = (self.uses().over(now_ns()), self.refusals().over(now_ns()));
        self.append_uses(&uses);
        refusals.iter().for_each(|line| self.append(&self.refused, line));
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_of(&self, token: &str) -> PathBuf {
        self.folder.join(format!("{token}.log"))
    }

    fn append_uses(&self, lines: &[(String, Value)]) {
        lines.iter().for_each(|(token, line)| self.append(&self.log_of(token), line));
    }

    /// That it cannot be written is said; nobody is refused for it.
    fn append(&self, log: &Path, line: &Value) {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let max = if log == self.refused { MAX_LOG_BYTES } else { self.log_bytes };
        if let Err(error) = append(log, &format!("{line}\n"), max) {
            crate::log::log!("{} cannot be written: {error}", log.display());
        }
    }

    /// The newest entries of all tokens, the newest first.
    pub(crate) fn newest(&self, max: usize) -> std::io::Result<Vec<Value>> {
        let mut found = Vec::new();
        for file in std::fs::read_dir(&self.folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|ending| ending == "log") {
                found.extend(newest(&path, max)?);
                // Of many tokens the newest are few.
                found.sort_by_key(|entry: &Value| std::cmp::Reverse(entry["at_ns"].as_i64()));
                found.truncate(max);
            }
        }
        Ok(found)
    }

    /// The same of what was refused, sums included.
    pub(crate) fn newest_refused(&self, max: usize) -> std::io::Result<Vec<Value>> {
        newest(&self.refused, max)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let (uses, refusals) = (self.uses().ended(now_ns()), self.refusals().ended(now_ns()));
        self.append_uses(&uses);
        refusals.iter().for_each(|line| self.append(&self.refused, line));
    }
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

fn before(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

/// It is opened for each line: there may be as many logs as tokens, and few lines of each.
fn append(log: &Path, line: &str, max_bytes: u64) -> std::io::Result<()> {
    let open = || File::options().create(true).append(true).mode(0o600).open(log);
    let mut file = open()?;
    if file.metadata()?.len() > max_bytes {
        std::fs::rename(log, before(log))?;
        file = open()?;
    }
    file.write_all(line.as_bytes())
}

/// Of the log before this one where this one has too few.
fn newest(log: &Path, max: usize) -> std::io::Result<Vec<Value>> {
    let mut found = entries(log, max)?;
    if found.len() < max {
        found.extend(entries(&before(log), max - found.len())?);
    }
    Ok(found)
}

/// Of the end of a log; nothing where there is none.
fn entries(path: &Path, max: usize) -> std::io::Result<Vec<Value>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let from = file.metadata()?.len().saturating_sub(max as u64 * MAX_ENTRY_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // The first line may have been cut.
    let lines = text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok(lines.take(max).collect())
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
        let audit = Audit::open(folder.path(), 2).unwrap();
        let ask = |token: &str, path: &str, at_ns: i64| audit.write_at(token, &entry(None, path, 200), at_ns);
        ask("aa", "/first", 1);
        let log = audit.log_of("aa");
        std::fs::rename(&log, before(&log)).unwrap();
        for number in 0..50 {
            let token = if number % 2 == 0 { "aa" } else { "bb" };
            ask(token, &format!("/{number} {}", "x".repeat(300)), 2 + number);
        }
        let paths = |max| -> Vec<String> {
            let found = audit.newest(max).unwrap();
            found.iter().map(|one| one["path"].as_str().unwrap().split(' ').next().unwrap().into()).collect()
        };
        assert_eq!(paths(2), ["/49", "/48"]);
        let all = paths(60);
        assert_eq!((all.len(), all[49].as_str(), all[50].as_str()), (51, "/0", "/first"));
    }

    /// 25 times a second, for hours.
    #[test]
    fn a_token_that_asks_without_end_rotates_its_own_log_alone() {
        const ASKED: i64 = 300_000;
        let folder = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(folder.path(), 2).unwrap();
        audit.log_bytes = MIN_LOG_BYTES;
        audit.write_at("bb", &entry(None, "/of-another", 200), 0);
        // Every path is another one.
        for number in 0..ASKED {
            let path = format!("/{number}/{}", "x".repeat(300));
            audit.write_at("aa", &entry(None, &path, 404), number * 40_000_000);
        }
        let length =
            |name: &str| std::fs::metadata(folder.path().join("audit").join(name)).map_or(0, |log| log.len());
        assert!(length("aa.log") + length("aa.log.1") < 2 * MIN_LOG_BYTES + 10_000);
        let newest = |log: &str| newest(&folder.path().join("audit").join(log), 10_000).unwrap();
        assert_eq!(newest("bb.log")[0]["path"], "/of-another");
        let counted: u64 = newest("aa.log").iter().filter_map(|line| line["count"].as_u64()).sum();
        assert!(counted > 1_200, "{counted}");
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path(), 1).unwrap();
        for _ in 0..10_000 {
            audit.write("aa", &entry(None, "/api", 200));
        }
        drop(audit);
        let audit = Audit::open(folder.path(), 1).unwrap();
        let lines = audit.newest(20_000).unwrap();
        assert!(lines.len() < 1_000, "{}", lines.len());
        assert_eq!(lines.iter().map(|line| line["count"].as_u64().unwrap_or(1)).sum::<u64>(), 10_000);
    }

    /// As 480,000 requests in ten seconds were, from one address and from very many.
    #[test]
    fn half_a_million_refusals_are_a_few_lines_and_erase_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path(), 1).unwrap();
        audit.write("aa", &entry(None, "/what-was-allowed", 200));
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
        let audit = Audit::open(folder.path(), 1).unwrap();
        assert_eq!(audit.newest(10).unwrap()[0]["path"], "/what-was-allowed");
        let counted = |line: &Value| line["count"].as_u64().unwrap_or(1);
        assert_eq!(audit.newest_refused(10_000).unwrap().iter().map(counted).sum::<u64>(), 480_000);
    }
}
