//! A trace in a thread of its own, and the handle to it.

use crate::run::Run;
use crate::updates::{Updates, updates};
use crate::{AgentError, Config, Summary, Update};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running trace.
#[derive(Debug)]
pub struct Agent {
    updates: Updates,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts tracing in a thread of its own. Failing to start is the first and last update.
    pub fn spawn(config: Config) -> Result<Agent, AgentError> {
        let (sender, updates) = updates();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("gpuwhy-agent".into())
            .spawn(move || {
                let result = Run::start(config, &sender).and_then(|run| run.until_stopped(&flag, &sender));
                // Nobody listening is no error: the trace is in the file.
                let _ = sender.send(Update::Ended(Box::new(result)));
            })
            .map_err(|error| AgentError::Internal(format!("no thread could be started: {error}")))?;
        Ok(Agent { updates, stop, thread: Some(thread) })
    }

    pub fn updates(&self) -> &Updates {
        &self.updates
    }

    /// Set it to end the trace; may be kept by a signal handler.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end, discarding updates before it.
    pub fn finish(mut self) -> Result<Summary, AgentError> {
        let mut ended = Err(AgentError::Internal("the tracing thread ended without a word".into()));
        for update in self.updates.iter() {
            if let Update::Ended(result) = update {
                ended = *result;
            }
        }
        if let Some(thread) = self.thread.take() {
            // Its result has already been received.
            let _ = thread.join();
        }
        ended
    }
}
