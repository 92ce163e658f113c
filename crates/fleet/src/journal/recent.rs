//! Pushes that were taken lately, by their ids: one that comes again, because its answer was lost, is told as stored and
//! counted, and not stored twice.

use crate::point::BatchId;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Ids are known for this long at least, and for twice as long at most. Time while the server is down does not count.
const LASTS: Duration = Duration::from_secs(600);
/// More of them are not kept.
const MAX: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Recent {
    current: HashSet<BatchId>,
    previous: HashSet<BatchId>,
    began: Instant,
    /// The earliest receipt among `current`: clocks are set back, too.
    oldest_ns: i64,
}

impl Recent {
    /// Those that were stored before this server began.
    pub(super) fn new(known: impl IntoIterator<Item = BatchId>) -> Recent {
        Recent {
            current: HashSet::new(),
            previous: known.into_iter().collect(),
            began: Instant::now(),
            oldest_ns: i64::MAX,
        }
    }

    pub(super) fn knows(&self, id: BatchId) -> bool {
        self.current.contains(&id) || self.previous.contains(&id)
    }

    pub(super) fn add(&mut self, id: BatchId, received_ns: i64) {
        self.current.insert(id);
        self.oldest_ns = self.oldest_ns.min(received_ns);
    }

    /// Lets go of the oldest where it is time; says before when ids can be forgotten.
    pub(super) fn turn(&mut self) -> Option<i64> {
        let due = self.began.elapsed() > LASTS || self.current.len() > MAX;
        due.then(|| self.turned())
    }

    fn turned(&mut self) -> i64 {
        self.previous = std::mem::take(&mut self.current);
        self.began = Instant::now();
        std::mem::replace(&mut self.oldest_ns, i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_before_is_known_and_what_is_new_is_not() {
        let mut recent = Recent::new([1, 2]);
        assert!(recent.knows(1) && recent.knows(2) && !recent.knows(3));
        recent.add(3, 5);
        assert!(recent.knows(3));
        assert_eq!(recent.turn(), None, "it is not time yet");
    }

    #[test]
    fn no_id_that_is_known_is_forgotten_in_the_store_when_the_clock_was_set_back() {
        let mut recent = Recent::new([1]);
        recent.add(2, 7_000);
        recent.add(3, 1_000);
        recent.add(4, 7_100);
        assert_eq!(recent.turned(), 1_000);
        assert!(!recent.knows(1) && recent.knows(2) && recent.knows(3) && recent.knows(4));
    }
}
