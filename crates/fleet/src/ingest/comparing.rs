//! The thread that compares: it looks at what was pushed, judges all ranks, and takes down what it finds.

use super::{Signal, id};
use crate::clock::Now;
use crate::gently::give_way;
use crate::journal::Journal;
use crate::peers::Peers;
use crate::point::Batch;
use crate::store::StoreError;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pushes wait for so long until they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Nobody is judged before ranks had time to tell something.
const FIRST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Comparing {
    /// It ends when there is nobody to tell it to.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Comparing {
    pub(super) fn start(peers: Arc<Peers>, journal: Arc<Journal>) -> Result<Comparing, StoreError> {
        let (end, is_over) = channel();
        let work = move || {
            give_way();
            let first = Instant::now() + FIRST;
            while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                match Instant::now() < first {
                    true => peers.absorb(),
                    false => judge(&peers, &journal),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("compare".into())
            .spawn(work)
            .map_err(|error| StoreError::Write(error.to_string()))?;
        Ok(Comparing { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn judge(peers: &Peers, journal: &Journal) {
    let now = Now::read();
    let findings = peers.judge(now);
    if findings.is_empty() {
        return;
    }
    let words: Vec<&str> = findings.iter().map(|found| &*found.title).collect();
    let id = id("fleet", Signal::Logs, format!("{} {}", now.wall_ns, words.join(" ")).as_bytes());
    let batch = Batch { id, received_ns: now.wall_ns, findings, ..Batch::default() };
    if let Err(error) = journal.append_blocking(&batch) {
        crate::log::log!("what was found could not be stored: {error}");
    }
}
