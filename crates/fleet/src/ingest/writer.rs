//! The thread that writes. What waits while a group is being stored is the next group: so a group is as large as it must
//! be, and nobody waits for others to come.

use super::budget::Taken;
use super::recent::Recent;
use crate::clock::now_ns;
use crate::point::Batch;
use crate::store::{Retention, Store, StoreError};
use crate::tally::Tally;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Rows of one transaction.
const GROUP_ROWS: usize = 200_000;
/// Pushes that wait; their memory is bounded by the budget.
const WAITING: usize = 20_000;
/// How often it is looked for what is too old.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// After a failure nothing is tried for so long: others are told to come later.
const PAUSE: Duration = Duration::from_millis(200);
/// That the store fails is said so often.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    Now,
    /// It was stored before.
    Before,
}

/// Why a push is not stored: it may come again.
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
    batch: Arc<Batch>,
    /// Room in memory, until it is stored.
    _taken: Taken,
    told: oneshot::Sender<Result<Stored, NotStored>>,
}

#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        tally: Arc<Tally>,
        keep: Retention,
    ) -> Result<Writer, StoreError> {
        let recent = Recent::new(store.recent()?, now_ns());
        let (jobs, waiting) = sync_channel(WAITING);
        let work = Work { store, tally, keep, recent, said: None };
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || work.run(&waiting))
            .map_err(|error| StoreError::Write(error.to_string()))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Returns when it is durable.
    pub(crate) async fn store(&self, batch: Arc<Batch>, taken: Taken) -> Result<Stored, NotStored> {
        let (told, answer) = oneshot::channel();
        let job = Job { batch, _taken: taken, told };
        match self.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => answer.await.unwrap_or(Err(NotStored::Ending)),
            Some(Err(TrySendError::Full(_))) => Err(NotStored::Full),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(NotStored::Ending),
        }
    }
}

impl Drop for Writer {
    /// What waits is stored first.
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    store: Arc<dyn Store>,
    tally: Arc<Tally>,
    keep: Retention,
    recent: Recent,
    said: Option<Instant>,
}

impl Work {
    fn run(mut self, waiting: &Receiver<Job>) {
        let mut looked = Instant::now();
        loop {
            match waiting.recv_timeout(Duration::from_secs(1)) {
                Ok(first) => self.group(collected(first, waiting)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() > FORGET_EVERY {
                looked = Instant::now();
                self.forget();
            }
        }
    }

    fn group(&mut self, jobs: Vec<Job>) {
        let mut ids = std::collections::HashSet::new();
        let (new, before): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !self.recent.knows(job.batch.id) && ids.insert(job.batch.id));
        let group: Vec<&Batch> = new.iter().map(|job| &*job.batch).collect();
        let written = match group.is_empty() {
            true => Ok(()),
            false => self.store.write(&group),
        };
        match written {
            Ok(()) => {
                for job in new {
                    self.recent.add(job.batch.id);
                    self.tally.stored(job.batch.rows());
                    // Nobody waits any more: it is stored all the same.
                    let _ = job.told.send(Ok(Stored::Now));
                }
                for job in before {
                    self.tally.duplicate(job.batch.rows());
                    let _ = job.told.send(Ok(Stored::Before));
                }
            }
            Err(error) => self.failed(&error, new.into_iter().chain(before)),
        }
    }

    fn failed(&mut self, error: &StoreError, jobs: impl Iterator<Item = Job>) {
        self.tally.failed();
        if self.said.is_none_or(|said| said.elapsed() > SAY_EVERY) {
            self.said = Some(Instant::now());
            eprintln!("gpuwhy-fleet: {error}; those who push are told to come later");
        }
        for job in jobs {
            let _ = job.told.send(Err(NotStored::Failed(error.to_string())));
        }
        std::thread::sleep(PAUSE);
        // Whether the last group is on disk nobody knows; the file does.
        if let Ok(known) = self.store.recent() {
            self.recent = Recent::new(known, now_ns());
        }
    }

    fn forget(&mut self) {
        let now_ns = now_ns();
        if let Some(before_ns) = self.recent.turn(now_ns) {
            let _ = self.store.forget_batches(before_ns);
        }
        match self.store.forget(now_ns, self.keep) {
            Ok(forgotten) => self.tally.forgotten(forgotten.rows),
            Err(error) => eprintln!("gpuwhy-fleet: old rows could not be deleted: {error}"),
        }
    }
}

fn collected(first: Job, waiting: &Receiver<Job>) -> Vec<Job> {
    let mut rows = first.batch.rows();
    let mut jobs = vec![first];
    while rows < GROUP_ROWS
        && let Ok(job) = waiting.try_recv()
    {
        rows += job.batch.rows();
        jobs.push(job);
    }
    jobs
}
