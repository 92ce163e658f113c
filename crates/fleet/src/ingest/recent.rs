//! Pushes that were stored lately, by their ids: one that comes again, because its answer was lost, is told as stored and
//! counted, and not stored twice.

use crate::point::BatchId;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Ids are known for this long at least, and for twice as long at most. Time while the server is down does not count.
const LASTS: Duration = Duration::from_secs(600);
/// More of them are not kept.
const MOST: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Recent {
    current: HashSet<BatchId>,
    previous: HashSet<BatchId>,
    began: Instant,
    began_ns: i64,
}

impl Recent {
    /// Those that were stored before this server began.
    pub(super) fn new(known: Vec<BatchId>, now_ns: i64) -> Recent {
        Recent {
            current: HashSet::new(),
            previous: known.into_iter().collect(),
            began: Instant::now(),
            began_ns: now_ns,
        }
    }

    pub(super) fn knows(&self, id: BatchId) -> bool {
        self.current.contains(&id) || self.previous.contains(&id)
    }

    pub(super) fn add(&mut self, id: BatchId) {
        self.current.insert(id);
    }

    /// Lets go of the oldest where it is time; says before when ids can be forgotten.
    pub(super) fn turn(&mut self, now_ns: i64) -> Option<i64> {
        let due = self.began.elapsed() > LASTS || self.current.len() > MOST;
        due.then(|| {
            self.previous = std::mem::take(&mut self.current);
            self.began = Instant::now();
            std::mem::replace(&mut self.began_ns, now_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_before_is_known_and_what_is_new_is_not() {
        let mut recent = Recent::new(vec![1, 2], 0);
        assert!(recent.knows(1) && recent.knows(2) && !recent.knows(3));
        recent.add(3);
        assert!(recent.knows(3));
        assert_eq!(recent.turn(5), None, "it is not time yet");
    }
}
