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
    is_taken: bool,
    /// So many wait for a checkpoint: they come before the next reader.
    waiting: usize,
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

/// A turn to make a checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint<'a>(&'a Gate);

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        self.0.lock().is_taken = false;
        self.0.changed.notify_all();
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// None where there was no turn in this time, or nobody waits any more.
    pub(super) fn read(&self, time: Duration, stop: &Stop) -> Option<Reading<'_>> {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while state.readers >= READERS || state.is_taken || state.waiting > 0 {
            if stop.is_stopped() || Instant::now() > end {
                return None;
            }
            state = self.wait(state);
        }
        state.readers += 1;
        Some(Reading(self))
    }

    /// None where somebody still reads after this time; nobody begins to meanwhile.
    pub(super) fn checkpoint(&self, time: Duration) -> Option<Checkpoint<'_>> {
        let end = Instant::now() + time;
        let mut state = self.lock();
        state.waiting += 1;
        while (state.readers > 0 || state.is_taken) && Instant::now() < end {
            state = self.wait(state);
        }
        state.waiting -= 1;
        let is_free = state.readers == 0 && !state.is_taken;
        state.is_taken |= is_free;
        drop(state);
        if !is_free {
            self.changed.notify_all();
        }
        is_free.then_some(Checkpoint(self))
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
        assert!(gate.checkpoint(Duration::ZERO).is_none());
        drop(gate.read(short, &stop).expect("one that was given up holds up nobody"));
        drop(one);
        let turn = gate.checkpoint(Duration::ZERO).unwrap();
        assert!(gate.read(short, &stop).is_none() && gate.checkpoint(Duration::ZERO).is_none());
        drop(turn);
        assert!(gate.read(short, &stop).is_some());
    }

    #[test]
    fn a_checkpoint_that_waits_comes_before_the_next_reader() {
        let (gate, stop) = (Gate::default(), Stop::default());
        let reading = gate.read(Duration::ZERO, &stop).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.checkpoint(Duration::from_secs(60)).is_some());
            while gate.lock().waiting == 0 {
                std::thread::yield_now();
            }
            assert!(gate.read(Duration::ZERO, &stop).is_none());
            drop(reading);
            assert!(waiting.join().unwrap());
        });
    }
}
