//! The thread that writes to the store, behind the journal. It takes what the journal has by then as one group: few large
//! transactions cost far less than many small ones, and nobody waits for them but those who ask.

use crate::clock::Now;
use crate::gently::give_way;
use crate::journal::{Journal, Next, Pace, Part, Position, Progress, Tail, decode, frames};
use crate::point::{Batch, BatchId};
use crate::store::{Retention, Sink, StoreError};
use crate::tally::Tally;
use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Rows of one transaction: two of DuckDB's row groups. Whole ones are written to where they stay; what is less goes through
/// its log and is written once more, which costs twice as much a row.
const GROUP_ROWS: usize = 2 * 122_880;
/// As many bytes of the journal as hold such a group and some more: the rest would be read again for the next one.
const GROUP_BYTES: u64 = 12 << 20;
/// It is written once a second, or when there is so much. Those who ask do not wait for that.
const PACE: Pace = Pace { every: Duration::from_secs(1), bytes: 9 << 20 };
/// How often it is looked for what is too old.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// After a failure it is tried again after so long.
const PAUSE: Duration = Duration::from_millis(200);
/// That the store fails is said so often.
const LOG_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Writer {
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Stores what is in the journal before it returns, where the store takes it.
    pub(crate) fn start(
        store: Arc<dyn Sink>,
        journal: &Journal,
        known: Vec<BatchId>,
        tally: Arc<Tally>,
        keep: Retention,
    ) -> Result<Writer, StoreError> {
        let progress = journal.progress().clone();
        let replay = Replay { to: progress.end(), known: known.into_iter().collect() };
        let tail = journal.read();
        let mut work = Work { store, progress, tail, tally, keep, replay, message: None, failures: 0 };
        work.drain();
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || work.run())
            .map_err(|error| StoreError::Write(error.to_string()))?;
        Ok(Writer { thread: Some(thread) })
    }
}

impl Drop for Writer {
    /// The journal has ended before: what is in it is stored first.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Up to where the journal is another server's, and what of it the store has.
struct Replay {
    to: Position,
    known: HashSet<BatchId>,
}

impl Replay {
    /// A push may be in a journal twice, where a disk failed.
    fn is_new(&mut self, id: BatchId, from: Position) -> bool {
        from >= self.to || self.known.insert(id)
    }
}

struct Work {
    store: Arc<dyn Sink>,
    progress: Arc<Progress>,
    tail: Tail,
    tally: Arc<Tally>,
    keep: Retention,
    replay: Replay,
    message: Option<Instant>,
    /// Since it last worked.
    failures: u32,
}

impl Work {
    fn run(mut self) {
        // Nobody waits for it as those do who push.
        give_way();
        let (mut looked, mut last) = (Instant::now(), Instant::now());
        loop {
            match self.progress.next(last, PACE) {
                Next::Write(part) => {
                    last = Instant::now();
                    self.write(part);
                    if self.failures > 0 && self.progress.is_over() {
                        // The next server finds it in the journal.
                        return;
                    }
                }
                Next::Nothing => {}
                Next::End => return,
            }
            if looked.elapsed() > FORGET_EVERY {
                looked = Instant::now();
                self.forget();
            }
        }
    }

    /// What another server left.
    fn drain(&mut self) {
        while self.failures == 0 && self.progress.behind() > 0 {
            match self.progress.next(Instant::now(), Pace { every: Duration::ZERO, ..PACE }) {
                Next::Write(part) => self.write(part),
                Next::Nothing | Next::End => return,
            }
        }
    }

    fn write(&mut self, part: Part) {
        match self.group(part) {
            Ok(to) => {
                self.failures = 0;
                if to >= self.replay.to {
                    self.replay.known = HashSet::new();
                }
                self.tail.delete(&self.progress.stored(to));
                self.tally.behind(self.progress.behind());
            }
            Err(error) => self.failed(&error, part),
        }
    }

    /// Gives up to where it is stored.
    fn group(&mut self, part: Part) -> Result<Position, StoreError> {
        let failed =
            |error: std::io::Error| StoreError::Write(format!("the journal cannot be read: {error}"));
        let near = Part { to: part.to.min(part.from.offset + GROUP_BYTES), ..part };
        let mut bytes = self.tail.bytes(near).map_err(failed)?;
        let mut is_whole = near.to == part.to;
        if !is_whole && frames(&bytes).next().is_none() {
            // One push is larger than that.
            (bytes, is_whole) = (self.tail.bytes(part).map_err(failed)?, true);
        }
        let (mut batches, mut rows, mut end, mut bad) = (Vec::new(), 0, 0, 0);
        // After a failure one at a time, so that one push cannot hold up the others.
        let most = if self.failures > 0 { 1 } else { GROUP_ROWS };
        let mut is_all = is_whole;
        for frame in frames(&bytes) {
            if rows >= most {
                is_all = false;
                break;
            }
            end = frame.end;
            match frame.record.and_then(decode) {
                Some(batch) if !self.replay.is_new(batch.id, part.from) => self.tally.duplicate(batch.rows()),
                Some(batch) => {
                    rows += batch.rows().max(1);
                    batches.push(batch);
                }
                None => bad += 1,
            }
        }
        let mut to = Position { offset: part.from.offset + end as u64, ..part.from };
        if is_all && to.offset < part.to {
            bad += 1;
            to.offset = part.to;
        }
        if bad > 0 {
            crate::log::log!("{bad} pushes of the journal cannot be read any more and are lost");
        }
        let group: Vec<&Batch> = batches.iter().collect();
        let oldest_ns = group.iter().map(|batch| batch.received_ns).min();
        self.store.write(&group, to)?;
        if let Some(oldest_ns) = oldest_ns {
            self.tally.lag(Now::read().wall_ns - oldest_ns);
        }
        Ok(to)
    }

    fn failed(&mut self, error: &StoreError, part: Part) {
        self.failures += 1;
        self.tally.failed();
        self.tally.behind(self.progress.behind());
        if self.message.is_none_or(|message| message.elapsed() > LOG_EVERY) {
            self.message = Some(Instant::now());
            crate::log::log!("{error}; what was acknowledged is in the journal, and is tried again");
        }
        std::thread::sleep(PAUSE);
        // Whether the last group is in the store nobody knows; the store does.
        match self.store.stored() {
            Ok(stored) if stored > part.from => {
                self.failures = 0;
                self.tail.delete(&self.progress.stored(stored));
            }
            // It was tried alone.
            Ok(_) if self.failures > 1 && matches!(error, StoreError::Refused(_)) => self.set_aside(part),
            _ => {}
        }
    }

    /// The store takes others, but not this one: it is kept in a file of its own.
    fn set_aside(&mut self, part: Part) {
        let Ok((file, to)) = self.tail.set_aside(part) else { return };
        if self.store.write(&[], to).is_ok() {
            self.failures = 0;
            self.progress.stored(to);
            crate::log::log!("a push that cannot be stored was put into {}", file.display());
        }
    }

    fn forget(&mut self) {
        if let Some(before_ns) = self.progress.to_forget() {
            let _ = self.store.forget_batches(before_ns);
        }
        // A clock that is ahead for a while must not make anything old.
        match self.store.forget(Now::read().earliest(), self.keep) {
            Ok(forgotten) => self.tally.forgotten(forgotten.rows),
            Err(error) => crate::log::log!("old rows could not be deleted: {error}"),
        }
    }
}
