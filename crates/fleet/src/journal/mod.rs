//! The journal: a push is durable here, in one sync for all that wait, before it is acknowledged. The store is written to
//! behind it, in groups as large as suit it, and a file of the journal is deleted when the store has all of it.
//!
//! After a crash the journal is read again from where the store says it is: each push is in the store exactly once.

mod ahead;
mod coding;
mod durable;
mod frame;
mod open;
mod progress;
mod recent;
mod record;
mod segment;
#[cfg(test)]
mod tests;

pub(crate) use frame::{frames, put as put_frame};
pub use progress::Position;
pub(crate) use progress::{Next, Pace, Part, Progress};
pub(crate) use record::{decode, encode as encode_record};

use crate::point::{Batch, BatchId};
use crate::tally::Tally;
use ahead::Ahead;
use gpuwhy_cohort::shares::Tenant;
use recent::Recent;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A segment is ended when it is so large.
const SEGMENT: u64 = 32 << 20;
/// What is written by one sync.
const GROUP: usize = 8 << 20;
/// Pushes that wait; their memory is bounded by the budget.
const WAITING: usize = 20_000;
/// After a failure nothing is tried for so long: others are told to come later.
const PAUSE: Duration = Duration::from_millis(200);
/// That the disk fails is said so often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    Now,
    /// It was taken before.
    Before,
}

/// Why a push is not taken: it may come again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    #[error("the server has as much to store as it can hold; send it again later")]
    Full,
    #[error("{0}; send it again later")]
    Failed(String),
    #[error("the server is ending; send it again later")]
    Ending,
}

struct Job {
    id: BatchId,
    received_ns: i64,
    rows: usize,
    record: Vec<u8>,
    reported: oneshot::Sender<Result<Stored, NotStored>>,
}

/// Where pushes go first. Its thread ends with it, having taken all that wait.
#[derive(Debug)]
pub(crate) struct Journal {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
    folder: PathBuf,
    /// Bytes that may be in it and not in the store.
    most: u64,
    ahead: Ahead,
}

impl Journal {
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Several senders share it: none of them may be further ahead of the store than there is room for others.
    pub(crate) fn set_shared(&mut self, is_shared: bool) {
        self.ahead = Ahead::new(self.most, is_shared);
    }

    /// Reads what the store does not have yet.
    pub(crate) fn read(&self) -> Tail {
        Tail { folder: self.folder.clone(), sync: File::sync_all }
    }

    /// Returns when it is durable.
    pub(crate) async fn append(&self, batch: &Batch, sender: &Tenant) -> Result<Stored, NotStored> {
        self.send(batch, Some(sender))?.await.unwrap_or(Err(NotStored::Ending))
    }

    /// The same of the server's own, for a thread that may wait.
    pub(crate) fn append_blocking(&self, batch: &Batch) -> Result<Stored, NotStored> {
        self.send(batch, None)?.blocking_recv().unwrap_or(Err(NotStored::Ending))
    }

    fn send(
        &self,
        batch: &Batch,
        sender: Option<&Tenant>,
    ) -> Result<oneshot::Receiver<Result<Stored, NotStored>>, NotStored> {
        if self.progress.behind() > self.most {
            return Err(NotStored::Full);
        }
        let (reported, answer) = oneshot::channel();
        let record = record::encode(batch);
        let (end, stored) = self.progress.places();
        if sender.is_some_and(|sender| !self.ahead.take(sender, record.len(), end, stored)) {
            return Err(NotStored::Full);
        }
        let job = Job { id: batch.id, received_ns: batch.received_ns, rows: batch.rows(), record, reported };
        match self.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => Ok(answer),
            Some(Err(TrySendError::Full(_))) => Err(NotStored::Full),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(NotStored::Ending),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The files, for whoever reads them.
#[derive(Debug)]
pub(crate) struct Tail {
    folder: PathBuf,
    sync: durable::Sync,
}

impl Tail {
    pub(crate) fn bytes(&self, part: Part) -> std::io::Result<Vec<u8>> {
        segment::read(&self.folder, part.from, Some(part.to))
    }

    /// Keeps the first frame of a part in a file of its own, which is on disk when this returns, and says where the next one is.
    pub(crate) fn set_aside(&self, part: Part) -> std::io::Result<(PathBuf, Position)> {
        let bytes = self.bytes(part)?;
        let end = frames(&bytes).next().map_or(bytes.len(), |frame| frame.end);
        let Position { segment, offset } = part.from;
        let path = self.folder.join(format!("{segment:020}-{offset}.aside"));
        durable::create(&path, &bytes[..end], self.sync)?;
        Ok((path, Position { segment, offset: offset + end as u64 }))
    }

    pub(crate) fn delete(&self, segments: &[u64]) {
        segments.iter().for_each(|number| segment::delete(&self.folder, *number));
    }
}

/// The thread that appends. What waits while a group is being synced is the next group: nobody waits for others to come.
struct Work {
    folder: PathBuf,
    progress: Arc<Progress>,
    tally: Arc<Tally>,
    recent: Recent,
    /// The one that is written to; none after a failure.
    file: Option<File>,
    number: u64,
    length: u64,
    message: Option<Instant>,
}

impl Work {
    fn run(mut self, waiting: &Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            self.group(collected(first, waiting));
            if let Some(before_ns) = self.recent.turn() {
                self.progress.forget_before(before_ns);
            }
        }
        self.progress.over();
    }

    fn group(&mut self, jobs: Vec<Job>) {
        let mut ids = HashSet::new();
        let (new, before): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !self.recent.knows(job.id) && ids.insert(job.id));
        let mut bytes = Vec::new();
        new.iter().for_each(|job| frame::put(&job.record, &mut bytes));
        if let Err(error) = self.append(&bytes) {
            return self.failed(&error, new.into_iter().chain(before));
        }
        for job in new {
            self.recent.add(job.id, job.received_ns);
            self.tally.stored(job.rows);
            // Nobody waits any more: it is taken all the same.
            let _ = job.reported.send(Ok(Stored::Now));
        }
        for job in before {
            self.tally.duplicate(job.rows);
            let _ = job.reported.send(Ok(Stored::Before));
        }
    }

    /// Durable when it returns.
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.length >= SEGMENT {
            self.file = None;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = segment::create(&self.folder, self.number + 1)?;
                (self.number, self.length) = (self.number + 1, segment::FIRST);
                self.progress.durable(self.number, self.length);
                self.file.insert(file)
            }
        };
        file.write_all(bytes)?;
        file.sync_data()?;
        self.length += bytes.len() as u64;
        self.progress.durable(self.number, self.length);
        Ok(())
    }

    fn failed(&mut self, error: &std::io::Error, jobs: impl Iterator<Item = Job>) {
        // What of it is on disk nobody knows, and what a sync could not write is never tried again: this file has ended where
        // it was last whole.
        if let Some(file) = self.file.take() {
            let _ = file.set_len(self.length);
        }
        self.tally.failed();
        let error = format!("the journal in {} cannot be written to: {error}", self.folder.display());
        if self.message.is_none_or(|message| message.elapsed() > LOG_EVERY) {
            self.message = Some(Instant::now());
            crate::log::log!("{error}; those who push are told to come later");
        }
        for job in jobs {
            let _ = job.reported.send(Err(NotStored::Failed(error.clone())));
        }
        std::thread::sleep(PAUSE);
    }
}

fn collected(first: Job, waiting: &Receiver<Job>) -> Vec<Job> {
    let mut bytes = first.record.len();
    let mut jobs = vec![first];
    while bytes < GROUP
        && let Ok(job) = waiting.try_recv()
    {
        bytes += job.record.len();
        jobs.push(job);
    }
    jobs
}
