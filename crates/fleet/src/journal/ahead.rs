//! How far each sender is ahead of the store: a flood of one is told to come later before others are.

use super::progress::Position;
use gpuwhy_cohort::shares::{Shares, Tenant};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Places in the journal are told apart by so many bytes.
const STEP: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Ahead(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    shares: Shares,
    /// What was appended after a place, the oldest first; a place has an entry for each sender at most.
    waiting: VecDeque<(Position, Tenant, usize)>,
}

impl Ahead {
    /// So many bytes, of several senders or of one.
    pub(super) fn new(max: u64, is_shared: bool) -> Ahead {
        let shares = Shares::new(usize::try_from(max).unwrap_or(usize::MAX), is_shared);
        Ahead(Mutex::new(Inner { shares, waiting: VecDeque::new() }))
    }

    /// Whether the sender may append so much, where the journal ends and the store is at these places.
    pub(super) fn take(&self, sender: &Tenant, bytes: usize, end: Position, stored: Position) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while inner.waiting.front().is_some_and(|(after, ..)| *after < stored)
            && let Some((_, sender, bytes)) = inner.waiting.pop_front()
        {
            inner.shares.give_back(&sender, bytes);
        }
        if !inner.shares.take(sender, bytes) {
            return false;
        }
        let after = Position { offset: end.offset / STEP * STEP, ..end };
        let mut same = inner.waiting.iter_mut().rev().take_while(|(at, ..)| *at == after);
        match same.find(|(_, of, _)| of == sender) {
            Some((_, _, sum)) => *sum += bytes,
            None => inner.waiting.push_back((after, sender.clone(), bytes)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_leaves_room_for_another_until_it_is_stored() {
        let at = |offset: u64| Position { segment: 1, offset };
        let ahead = Ahead::new(1 << 20, true);
        let (one, other) = ("one".into(), "other".into());
        let taken = (0..10_000).filter(|at_| ahead.take(&one, 1_000, at(8 + at_ * 1_000), at(0))).count();
        assert!((500..540).contains(&taken), "{taken}");
        assert!(ahead.take(&other, 100_000, at(9_000_000), at(0)));
        assert!(ahead.take(&one, 1_000, at(9_000_000), at(9_000_000)), "what is stored counts no more");
        let inner = ahead.0.lock().unwrap();
        assert_eq!(inner.waiting.len(), 1, "{:?}", inner.waiting);
    }
}
