//! Findings of a trace as it is made: read from its file by a thread of their own, so that tracing never waits for them.

use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::{Reader, write_findings};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is shown while it runs is of the last minute.
const LOOK_BACK: &str = "60s";
/// Looking takes at most this share of a CPU.
const SHARE: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A trace that was stopped has to end within a second: of a larger file the last minute is explained.
const LARGE_FILE: u64 = 64 << 20;

/// Looks at a trace again and again until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    found: Receiver<Explained>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Of the file at `path`, which another thread writes. Nothing where no thread can be had: findings then come at
    /// the end.
    pub(crate) fn start(path: PathBuf) -> Option<Watcher> {
        let (found_sender, found) = channel();
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("gpuwhy-findings".into())
            .spawn(move || watch(&path, &found_sender, &stopped))
            .ok()?;
        Some(Watcher { found, stop: Some(stop), thread: Some(thread) })
    }

    /// The newest ones since it was last asked.
    pub(crate) fn newest(&self) -> Option<Explained> {
        self.found.try_iter().last()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic with anything to tell.
            let _ = thread.join();
        }
    }
}

fn watch(path: &Path, found: &Sender<Explained>, stopped: &Receiver<()>) {
    let mut pause = LOOK_EVERY;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let began = Instant::now();
        // A file without calls yet has nothing to explain; one that cannot be read is the writer's to report.
        if let Ok(explained) = look(path, Some(LOOK_BACK), None)
            && found.send(explained).is_err()
        {
            return;
        }
        pause = LOOK_EVERY.max(began.elapsed() * SHARE);
    }
}

fn look(path: &Path, since: Option<&str>, from_ns: Option<u64>) -> Result<Explained, String> {
    let reader = Reader::open(path).map_err(|error| error.to_string())?;
    // A file of one session is explained as `gpuwhy explain` does it: all of it.
    let sessions = reader.sessions().map_err(|error| error.to_string())?.len();
    let from_ns = from_ns.filter(|_| sessions > 1);
    let request =
        ExplainRequest { since: since.map(ToString::to_string), from_ns, ..ExplainRequest::default() };
    explain(&reader, &request).map_err(|error| error.to_string())
}

/// The session that began at `start_ns` explained, and its findings kept in the file. Nothing where there were no calls.
pub(crate) fn conclude(path: &Path, start_ns: u64) -> Option<Explained> {
    let is_large = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > LARGE_FILE);
    let since = is_large.then_some(LOOK_BACK);
    let explained = look(path, since, Some(start_ns)).ok();
    // The trace is whole without them: `gpuwhy explain` finds them again. Done where there are none, too: only who may
    // write can put away the log that readers left behind.
    let findings = explained.as_ref().map_or(&[][..], |explained| explained.findings.as_slice());
    let _ = write_findings(path, findings);
    explained
}
