//! What waits on disk to be sent: a file for each request, named by its place in line, so that what a dead agent left is
//! sent by the next one, in order. Bounded in bytes; beyond, the oldest is given up and counted. What counts as kept is on the
//! disk: after a power cut, too.

use super::delivery::{Delivery, GivenUp};
use super::queue::Outgoing;
use crate::otlp::{Request, Signal};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("{folder} cannot hold what waits to be sent: {reason}; name another with --fleet-spool")]
    Folder { folder: String, reason: String },
    #[error("another gpuwhy keeps what waits to be sent in {folder}; name another with --fleet-spool")]
    Taken { folder: String },
}

#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    most_bytes: u64,
    waiting: Mutex<Waiting>,
    news: Notify,
    delivery: Arc<Delivery>,
    sync: Sync,
    /// Held as long as this lives: two agents would send each other's files.
    _lock: File,
}

/// Puts what was written on the disk.
type Sync = fn(&File) -> io::Result<()>;

#[derive(Debug, Default)]
struct Waiting {
    line: VecDeque<Entry>,
    bytes: u64,
    next: u64,
    closed: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    number: u64,
    signal: Signal,
    items: u64,
    bytes: u64,
}

impl Entry {
    fn name(&self) -> String {
        format!("{:016x}-{}-{}", self.number, self.signal.name(), self.items)
    }

    /// What is named otherwise is none of ours.
    fn parse(name: &str, bytes: u64) -> Option<Entry> {
        let mut parts = name.split('-');
        let (number, signal, items) = (parts.next()?, parts.next()?, parts.next()?);
        let signal = Signal::ALL.into_iter().find(|known| known.name() == signal)?;
        let entry = Entry {
            number: u64::from_str_radix(number, 16).ok()?,
            signal,
            items: items.parse().ok()?,
            bytes,
        };
        (parts.next().is_none() && entry.name() == name).then_some(entry)
    }
}

impl Spool {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes over what an earlier agent left.
    pub(super) fn open(folder: &Path, most_bytes: u64, delivery: Arc<Delivery>) -> Result<Spool, SpoolError> {
        let wrong = |error: io::Error| SpoolError::Folder {
            folder: folder.display().to_string(),
            reason: error.to_string(),
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))
            .map_err(wrong)?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => SpoolError::Taken { folder: folder.display().to_string() },
            fs::TryLockError::Error(error) => wrong(error),
        })?;
        let mut waiting = Waiting::default();
        for entry in fs::read_dir(folder).map_err(wrong)?.flatten() {
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            waiting.line.extend(entry.file_name().to_str().and_then(|name| Entry::parse(name, bytes)));
        }
        waiting.line.make_contiguous().sort_by_key(|entry| entry.number);
        waiting.next = waiting.line.back().map_or(0, |last| last.number + 1);
        waiting.bytes = waiting.line.iter().map(|entry| entry.bytes).sum();
        delivery.queued(waiting.bytes as usize);
        Ok(Spool {
            folder: folder.into(),
            most_bytes,
            waiting: Mutex::new(waiting),
            news: Notify::new(),
            delivery,
            sync: File::sync_all,
            _lock: lock,
        })
    }

    pub(super) fn put(&self, request: &Request) {
        let body = request.encode();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry {
            number: waiting.next,
            signal: request.signal(),
            items: request.items(),
            bytes: body.len() as u64,
        };
        while waiting.bytes + entry.bytes > self.most_bytes
            && let Some(oldest) = waiting.line.pop_front()
        {
            waiting.bytes -= oldest.bytes;
            self.remove(&oldest);
            self.delivery.dropped(oldest.signal, GivenUp::Queue, oldest.items);
        }
        if let Err(error) = self.store(&entry.name(), &body) {
            self.delivery.dropped(entry.signal, GivenUp::Queue, entry.items);
            self.delivery.trouble(format!("{}: {error}", self.folder.display()));
            return;
        }
        waiting.next += 1;
        waiting.bytes += entry.bytes;
        waiting.line.push_back(entry);
        self.delivery.queued(waiting.bytes as usize);
        self.news.notify_one();
    }

    /// Its bytes first, then its name: a file with half of a request has another one.
    fn store(&self, name: &str, body: &[u8]) -> io::Result<()> {
        let (half, whole) = (self.folder.join("half"), self.folder.join(name));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        // One that an earlier gpuwhy left may be open to all.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(body)?;
        (self.sync)(&file)?;
        fs::rename(&half, &whole)?;
        File::open(&self.folder).and_then(|folder| (self.sync)(&folder)).inspect_err(|_| {
            // It is said to be lost, so it is not sent later.
            let _ = fs::remove_file(&whole);
        })
    }

    pub(super) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.news.notify_one();
    }

    /// The oldest, which stays in line until it is [`Spool::done`].
    pub(super) async fn next(&self) -> Option<Outgoing> {
        loop {
            if let Some(found) = self.first() {
                return found;
            }
            self.news.notified().await;
        }
    }

    /// None while there is nothing; nothing within where nothing will come.
    fn first(&self) -> Option<Option<Outgoing>> {
        loop {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = waiting.line.front().cloned() else {
                return waiting.closed.then_some(None);
            };
            match fs::read(self.folder.join(entry.name())) {
                Ok(body) => {
                    return Some(Some(Outgoing {
                        signal: entry.signal,
                        items: entry.items,
                        body: body.into(),
                        number: entry.number,
                    }));
                }
                // Somebody took it away.
                Err(error) => {
                    waiting.line.pop_front();
                    waiting.bytes -= entry.bytes;
                    self.delivery.dropped(entry.signal, GivenUp::Queue, entry.items);
                    self.delivery.trouble(format!("{}: {error}", self.folder.display()));
                }
            }
        }
    }

    /// It was taken or refused. One that was given up meanwhile, as the oldest, is not in line any more.
    pub(super) fn done(&self, number: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.line.front().is_some_and(|first| first.number == number)
            && let Some(first) = waiting.line.pop_front()
        {
            waiting.bytes -= first.bytes;
            self.remove(&first);
            self.delivery.queued(waiting.bytes as usize);
        }
    }

    fn remove(&self, entry: &Entry) {
        if let Err(error) = fs::remove_file(self.folder.join(entry.name())) {
            self.delivery.trouble(format!("{}: {error}", self.folder.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use crate::otlp::{Histograms, Resource, metrics};

    fn request(host: &str) -> Request {
        metrics(&State::new(host, 1, &[], false), &Resource::new(host, &[]), Histograms::Explicit).remove(0)
    }

    fn next(spool: &Spool) -> Option<Outgoing> {
        spool.first().flatten()
    }

    #[test]
    fn what_a_dead_agent_left_is_sent_first_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let delivery = Arc::new(Delivery::default());
        let spool = Spool::open(folder.path(), 1 << 20, delivery.clone()).unwrap();
        let hosts: Vec<String> = (0..20).map(|number| format!("host{number:02}")).collect();
        hosts.iter().take(15).for_each(|host| spool.put(&request(host)));
        let first = next(&spool).unwrap();
        spool.done(first.number);
        let another = Spool::open(folder.path(), 1 << 20, delivery.clone());
        assert!(matches!(another, Err(SpoolError::Taken { .. })), "one agent at a time");
        drop(spool);
        fs::write(folder.path().join("half"), b"cut off").unwrap();
        fs::write(folder.path().join("notes.txt"), b"not ours").unwrap();
        let spool = Spool::open(folder.path(), 1 << 20, delivery).unwrap();
        hosts.iter().skip(15).for_each(|host| spool.put(&request(host)));
        spool.close();
        let mut sent = Vec::new();
        while let Some(outgoing) = next(&spool) {
            sent.push(outgoing.body.clone());
            spool.done(outgoing.number);
        }
        let expected: Vec<_> = hosts.iter().skip(1).map(|host| request(host).encode()).collect();
        assert_eq!(sent, expected);
        assert!(folder.path().join("notes.txt").exists(), "and nothing else is touched");
    }

    #[test]
    fn what_is_not_on_the_disk_does_not_count_as_kept() {
        let failed = || io::Error::other("the disk does not answer");
        let no_files: Sync = |file| match file.metadata()?.is_file() {
            true => Err(io::Error::other("the disk does not answer")),
            false => Ok(()),
        };
        let no_folders: Sync = |file| match file.metadata()?.is_dir() {
            true => Err(io::Error::other("the disk does not answer")),
            false => Ok(()),
        };
        for sync in [no_files, no_folders] {
            let folder = tempfile::tempdir().unwrap();
            let delivery = Arc::new(Delivery::default());
            let mut spool = Spool::open(folder.path(), 1 << 20, delivery.clone()).unwrap();
            let one = request("h");
            let kept = || {
                let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
                names.filter(|name| Entry::parse(name.to_str().unwrap(), 0).is_some()).count()
            };
            spool.sync = sync;
            spool.put(&one);
            let now = delivery.now();
            assert_eq!(now.dropped.get(&(Signal::Metrics, GivenUp::Queue)), Some(&one.items()));
            assert!(now.trouble.unwrap().contains(&failed().to_string()));
            assert_eq!((now.queued_bytes, kept(), next(&spool).is_none()), (0, 0, true));
            spool.sync = File::sync_all;
            spool.put(&one);
            assert_eq!((kept(), next(&spool).unwrap().body), (1, one.encode()));
        }
    }

    #[test]
    fn what_waits_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        let spool = Spool::open(&below, 1 << 20, Arc::new(Delivery::default())).unwrap();
        // As an earlier gpuwhy left it.
        fs::write(below.join("half"), "").unwrap();
        spool.put(&request("h"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path().join("a")), mode(&below)), (0o700, 0o700));
        for entry in fs::read_dir(&below).unwrap().flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.file_name());
        }
    }

    #[test]
    fn when_it_is_full_the_oldest_goes_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let delivery = Arc::new(Delivery::default());
        let one = request("h");
        let spool = Spool::open(folder.path(), 3 * one.encode().len() as u64, delivery.clone()).unwrap();
        let in_hand = {
            spool.put(&one);
            next(&spool).unwrap()
        };
        (0..5).for_each(|_| spool.put(&one));
        let dropped = delivery.now().dropped;
        assert_eq!(dropped.get(&(Signal::Metrics, GivenUp::Queue)), Some(&(3 * one.items())));
        spool.done(in_hand.number);
        assert_eq!(delivery.now().queued_bytes, 3 * one.encode().len() as u64, "it was not in line any more");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3 + 1, "and the lock");
    }
}
