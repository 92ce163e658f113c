//! Long work on a terminal: how far it is, and Ctrl-C.

use crate::failure::Failure;
use gpuwhy_model::units::count;
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is done sooner needs no words.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Progress {
    stopped: Arc<AtomicBool>,
    terminal: bool,
    next: Cell<Instant>,
    shown: Cell<bool>,
}

impl Progress {
    /// From now on Ctrl-C only asks to stop: what was begun is cleared away.
    pub(crate) fn begin() -> Result<Progress, Failure> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&stopped))?;
        }
        Ok(Progress {
            stopped,
            terminal: std::io::stderr().is_terminal(),
            next: Cell::new(Instant::now() + PATIENCE),
            shown: Cell::new(false),
        })
    }

    /// Set by Ctrl-C, for others to look at.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stopped)
    }

    /// So many rows are done; false to stop.
    pub(crate) fn rows(&self, rows: u64) -> bool {
        self.say(|| format!("{} rows", count(rows)))
    }

    /// The same in other words.
    pub(crate) fn say(&self, words: impl FnOnce() -> String) -> bool {
        if self.terminal && Instant::now() >= self.next.get() {
            self.next.set(Instant::now() + PAUSE);
            self.shown.set(true);
            let _ = write!(std::io::stderr(), "\r{:60}", words() + " ...");
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Leaves the terminal as it was.
    pub(crate) fn clear(&self) {
        if self.shown.replace(false) {
            let _ = write!(std::io::stderr(), "\r{:60}\r", "");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
