//! What a statement writes to temporary files, as when it sorts more than fits into memory: nobody else bounds that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The kernel is not asked more often.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Default)]
pub(super) struct Spill {
    /// What the thread had written when the statement began.
    before: Arc<AtomicU64>,
    /// What it may write.
    limit: Arc<AtomicU64>,
    /// When the kernel was last asked.
    asked: Arc<AtomicU64>,
    pub(super) too_much: Arc<AtomicBool>,
}

impl Spill {
    pub(super) fn begin(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.before.store(written().unwrap_or(0), Ordering::Relaxed);
        self.too_much.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_too_much(&self, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        if now < self.asked.load(Ordering::Relaxed) + PAUSE.as_nanos() as u64 {
            return false;
        }
        self.asked.store(now, Ordering::Relaxed);
        let before = self.before.load(Ordering::Relaxed);
        let too_much =
            written().is_some_and(|now| now.saturating_sub(before) > self.limit.load(Ordering::Relaxed));
        self.too_much.store(too_much, Ordering::Relaxed);
        too_much
    }
}

/// Bytes this thread has written, which is the one that runs the statement; unknown where the kernel does not count.
fn written() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_this_thread_writes_is_counted() {
        let Some(before) = written() else { return };
        tempfile::tempfile().unwrap().write_all(&[7; 100_000]).unwrap();
        assert!(written().unwrap() >= before + 100_000);
    }
}
