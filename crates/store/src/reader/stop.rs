//! Ending a question from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Once stopped it stays so: a question of many statements ends, too. Its clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl From<Arc<AtomicBool>> for Stop {
    /// One that somebody else sets, as a signal.
    fn from(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }
}

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
