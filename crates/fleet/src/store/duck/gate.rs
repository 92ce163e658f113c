//! Turns of the file: statements that others wrote read it from processes of their own, and while they do nobody makes a
//! checkpoint, which is all that ever overwrites what they read.

use crate::store::Stop;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Processes at a time.
const READERS: usize = 2;
/// How often it is looked whether somebody still waits.
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    readers: usize,
    /// A checkpoint has waited for long enough: it comes before the next reader.
    is_wanted: bool,
}

/// A turn to read.
#[derive(Debug)]
pub(super) struct Reading<'a>(&'a Gate);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.lock().readers -= 1;
        self.0.changed.notify_all();
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None where there was no turn in this time, or nobody waits any more.
    pub(super) fn read(&self, time: Duration, stop: &Stop) -> Option<Reading<'_>> {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while state.readers >= READERS || state.is_wanted {
            if stop.is_stopped() || Instant::now() > end {
                return None;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.readers += 1;
        Some(Reading(self))
    }

    /// Does it if nobody reads, and says whether. Where it is `urgent` nobody begins to read before it is done.
    pub(super) fn checkpoint<T>(&self, urgent: bool, work: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.lock();
        if state.readers > 0 {
            state.is_wanted |= urgent;
            return None;
        }
        // Readers wait for the lock meanwhile.
        let done = work();
        state.is_wanted = false;
        drop(state);
        self.changed.notify_all();
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_and_readers_take_turns() {
        let (gate, stop, short) = (Gate::default(), Stop::default(), Duration::from_millis(1));
        let one = gate.read(short, &stop).unwrap();
        let other = gate.read(short, &stop).unwrap();
        assert!(gate.read(short, &stop).is_none(), "there are so many at a time");
        drop(other);
        assert_eq!(gate.checkpoint(false, || 1), None);
        drop(gate.read(short, &stop).unwrap());
        assert_eq!(gate.checkpoint(true, || 1), None);
        assert!(gate.read(short, &stop).is_none(), "it has waited for long enough");
        drop(one);
        assert_eq!(gate.checkpoint(false, || 1), Some(1));
        assert!(gate.read(short, &stop).is_some());
    }
}
