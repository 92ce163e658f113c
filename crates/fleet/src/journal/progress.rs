//! How far the journal is, and how far behind it the store.

use super::segment::FIRST;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A place in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Numbers only grow; 0 is before all of them.
    pub segment: u64,
    pub offset: u64,
}

/// Frames that the store does not have yet: of one segment, from a place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: Position,
    pub(crate) to: u64,
}

/// What the thread that writes to the store is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Write(Part),
    /// Nothing for now.
    Nothing,
    End,
}

/// When the store is written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Not more often, unless somebody waits for it.
    pub(crate) every: Duration,
    /// With so much to write it is.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Progress {
    state: Mutex<State>,
    work: Condvar,
    stored: watch::Sender<Position>,
}

#[derive(Debug, Default)]
struct State {
    /// By number, where what is durable ends.
    segments: BTreeMap<u64, u64>,
    stored: Position,
    /// Somebody waits for it.
    is_wanted: bool,
    is_over: bool,
    /// Ids of pushes from before then need not be known any more.
    forget_before_ns: Option<i64>,
}

impl State {
    fn part(&self) -> Option<Part> {
        let (number, to) = self.segments.range(self.stored.segment..).find(|(number, to)| {
            let from = if **number == self.stored.segment { self.stored.offset } else { FIRST };
            from < **to
        })?;
        let is_same = *number == self.stored.segment;
        let offset = if is_same { self.stored.offset } else { FIRST };
        Some(Part { from: Position { segment: *number, offset }, to: *to })
    }

    fn end(&self) -> Position {
        let newest = self.segments.last_key_value();
        newest.map_or(self.stored, |(segment, offset)| Position { segment: *segment, offset: *offset })
    }

    fn behind(&self) -> u64 {
        let after = self.segments.range(self.stored.segment..);
        after
            .map(|(number, to)| match *number == self.stored.segment {
                true => to.saturating_sub(self.stored.offset),
                false => to.saturating_sub(FIRST),
            })
            .sum()
    }
}

impl Progress {
    pub(super) fn new(segments: BTreeMap<u64, u64>, stored: Position) -> Progress {
        let state = State { segments, stored, ..State::default() };
        Progress { state: Mutex::new(state), work: Condvar::new(), stored: watch::Sender::new(stored) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much of a segment is durable.
    pub(super) fn durable(&self, segment: u64, to: u64) {
        let mut state = self.lock();
        let was_idle = state.part().is_none();
        state.segments.insert(segment, to);
        drop(state);
        // Whoever has something to write knows when.
        if was_idle {
            self.work.notify_all();
        }
    }

    pub(super) fn forget_before(&self, before_ns: i64) {
        self.lock().forget_before_ns = Some(before_ns);
    }

    pub(crate) fn to_forget(&self) -> Option<i64> {
        self.lock().forget_before_ns.take()
    }

    /// Nothing more comes.
    pub(super) fn over(&self) {
        self.lock().is_over = true;
        self.work.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The store has everything before it; gives the segments that nobody needs any more.
    pub(crate) fn stored(&self, to: Position) -> Vec<u64> {
        let mut state = self.lock();
        state.stored = to;
        state.is_wanted &= state.part().is_some();
        let needed = state.segments.split_off(&to.segment);
        let done = std::mem::replace(&mut state.segments, needed);
        drop(state);
        self.stored.send_replace(to);
        done.into_keys().collect()
    }

    pub(crate) fn end(&self) -> Position {
        self.lock().end()
    }

    /// Where the journal ends, and up to where the store has it.
    pub(super) fn places(&self) -> (Position, Position) {
        let state = self.lock();
        (state.end(), state.stored)
    }

    /// Bytes that are in the journal and not in the store.
    pub(crate) fn behind(&self) -> u64 {
        self.lock().behind()
    }

    /// What is to be written now, having waited for it for a while; `last` is when it was last.
    pub(crate) fn next(&self, last: Instant, pace: Pace) -> Next {
        let mut state = self.lock();
        let patience = Instant::now() + Duration::from_secs(1);
        loop {
            let part = state.part();
            let due = last + pace.every;
            match part {
                None if state.is_over => return Next::End,
                Some(part)
                    if state.is_over
                        || state.is_wanted
                        || Instant::now() >= due
                        || state.behind() >= pace.bytes =>
                {
                    return Next::Write(part);
                }
                _ => {}
            }
            let until = if part.is_some() { due.min(patience) } else { patience };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && part.is_none() {
                return Next::Nothing;
            }
            let waited = self.work.wait_timeout(state, left.max(Duration::from_millis(1)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the store has what is in the journal now, but not for longer than that.
    pub(crate) async fn caught_up(&self, patience: Duration) {
        let target = {
            let mut state = self.lock();
            if state.part().is_none() {
                return;
            }
            state.is_wanted = true;
            state.end()
        };
        self.work.notify_all();
        let mut stored = self.stored.subscribe();
        let reached = stored.wait_for(|stored| *stored >= target);
        // Whoever asks is answered from what there is.
        let _ = tokio::time::timeout(patience, reached).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { every: Duration::from_secs(3600), bytes: 1_000 };

    fn at(segment: u64, offset: u64) -> Position {
        Position { segment, offset }
    }

    #[test]
    fn parts_follow_each_other_over_segments_and_what_is_done_is_given_up() {
        let progress = Progress::new([(3, FIRST), (4, 100), (6, 50)].into(), at(3, FIRST));
        assert_eq!((progress.behind(), progress.end()), (92 + 42, at(6, 50)));
        let last = Instant::now();
        progress.over();
        assert_eq!(progress.next(last, PACE), Next::Write(Part { from: at(4, FIRST), to: 100 }));
        assert_eq!(progress.stored(at(4, 60)), [3]);
        assert_eq!(progress.next(last, PACE), Next::Write(Part { from: at(4, 60), to: 100 }));
        assert_eq!(progress.stored(at(4, 100)), Vec::<u64>::new());
        assert_eq!(progress.next(last, PACE), Next::Write(Part { from: at(6, FIRST), to: 50 }));
        assert_eq!(progress.stored(at(6, 50)), [4]);
        assert_eq!((progress.behind(), progress.next(last, PACE)), (0, Next::End));
        assert_eq!(progress.end(), at(6, 50), "the one that is written to stays");
    }

    #[test]
    fn it_is_written_when_it_is_time_when_it_is_much_and_when_somebody_waits() {
        let progress = Progress::new([(1, FIRST)].into(), at(0, 0));
        let last = Instant::now();
        progress.durable(1, 500);
        let part = Part { from: at(1, FIRST), to: 500 };
        let soon = Pace { every: Duration::ZERO, ..PACE };
        assert_eq!(progress.next(last, soon), Next::Write(part));
        progress.durable(1, 2_000);
        assert_eq!(progress.next(last, PACE), Next::Write(Part { to: 2_000, ..part }));
        progress.stored(at(1, 2_000));
        progress.durable(1, 2_500);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| runtime.block_on(progress.caught_up(Duration::from_secs(60))));
            let part = Part { from: at(1, 2_000), to: 2_500 };
            assert_eq!(progress.next(last, PACE), Next::Write(part));
            progress.stored(at(1, 2_500));
            waiting.join().unwrap();
        });
        // Nobody waits for what is there already.
        runtime.block_on(progress.caught_up(Duration::from_secs(60)));
    }
}
