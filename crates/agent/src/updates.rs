//! The way from the tracing thread to whoever watches it. Tracing never waits, and a watcher that does not keep up (a pipe that
//! nobody reads) costs no memory without end: what does not fit is left out and counted. The trace has all of it.

use crate::Update;
use gpuwhy_model::Batch;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SendError, Sender, channel};
use std::time::Duration;

/// Rows that wait for the watcher: about a hundred bytes each, and as much again of what follows from them.
const MAX_ROWS: usize = 200_000;

pub(crate) fn updates() -> (Outbox, Updates) {
    let (sender, receiver) = channel();
    let rows = Arc::new(AtomicUsize::new(0));
    (Outbox { sender, rows: rows.clone(), skipped: Cell::new(0) }, Updates { receiver, rows })
}

/// The tracing thread's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    sender: Sender<(Update, usize)>,
    rows: Arc<AtomicUsize>,
    skipped: Cell<u64>,
}

/// The watcher's end.
#[derive(Debug)]
pub struct Updates {
    receiver: Receiver<(Update, usize)>,
    rows: Arc<AtomicUsize>,
}

impl Outbox {
    /// Fails where nobody watches any more.
    pub(crate) fn send(&self, update: Update) -> Result<(), SendError<()>> {
        let rows = rows(&update);
        // One that is too large alone is sent when nothing else waits.
        let waiting = self.rows.load(Ordering::Relaxed);
        if rows > 0 && waiting > 0 && waiting + rows > MAX_ROWS {
            self.skipped.set(self.skipped.get() + 1);
            return Ok(());
        }
        let skipped = self.skipped.take();
        if skipped > 0 {
            self.put(Update::Skipped(skipped), 0)?;
        }
        self.put(update, rows)
    }

    fn put(&self, update: Update, rows: usize) -> Result<(), SendError<()>> {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.sender.send((update, rows)).map_err(|_| SendError(()))
    }
}

impl Updates {
    pub fn recv(&self) -> Result<Update, RecvError> {
        self.receiver.recv().map(|taken| self.taken(taken))
    }

    pub fn recv_timeout(&self, timeout: Duration) -> Result<Update, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout).map(|taken| self.taken(taken))
    }

    /// Until the trace has ended.
    pub fn iter(&self) -> impl Iterator<Item = Update> {
        self.receiver.iter().map(|taken| self.taken(taken))
    }

    fn taken(&self, (update, rows): (Update, usize)) -> Update {
        self.rows.fetch_sub(rows, Ordering::Relaxed);
        update
    }
}

/// What it weighs; nothing where it may not be left out.
fn rows(update: &Update) -> usize {
    match update {
        Update::Batch(news) => 1 + rows_of(&news.0),
        Update::Snapshot(snapshot) => 1 + snapshot.tallies.by_process().count() + snapshot.processes.len(),
        Update::Started { .. } | Update::Attached(_) | Update::Skipped(_) | Update::Ended(_) => 0,
    }
}

/// The kinds of rows that are many.
fn rows_of(batch: &Batch) -> usize {
    [
        batch.calls.len(),
        batch.windows.len(),
        batch.waits.len(),
        batch.process_events.len(),
        batch.processes.len(),
        batch.stacks.len() * 16,
        batch.nccl_calls.len(),
        batch.completions.len(),
        batch.launch_counts.len(),
        batch.wait_events.len(),
        batch.io_events.len(),
        batch.tcp_events.len(),
        batch.cpu_samples.len(),
        batch.annotations.len(),
    ]
    .iter()
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Call, Facts};

    fn news(rows: usize) -> Update {
        let batch = Batch { calls: vec![Call::default(); rows], ..Batch::default() };
        Update::Batch(Box::new((batch, Facts::default())))
    }

    #[test]
    fn what_nobody_reads_is_left_out_and_counted() {
        let (outbox, updates) = updates();
        for _ in 0..1_000 {
            outbox.send(news(999)).unwrap();
        }
        outbox.send(Update::Attached(Vec::new())).unwrap();
        let first: Vec<Update> = (0..200).map(|_| updates.recv().unwrap()).collect();
        assert!(first.iter().all(|update| matches!(update, Update::Batch(_))));
        assert!(matches!(updates.recv().unwrap(), Update::Skipped(800)));
        assert!(matches!(updates.recv().unwrap(), Update::Attached(_)), "it is never left out");
        outbox.send(news(3 * MAX_ROWS)).unwrap();
        assert!(matches!(updates.recv().unwrap(), Update::Batch(_)), "a large one, where nothing waits");
        drop(outbox);
        assert_eq!(updates.iter().count(), 0);
    }
}
