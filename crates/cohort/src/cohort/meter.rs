//! What share of the time a rank was on its own, outside collectives.
//!
//! Ranks meet at collectives, so all take the same time for a step; but whoever is slow waits less. Its own time is told by
//! its own clock alone, and a rank that comes late because it had to wait elsewhere has no more of it than its peers.
//! Stretches go from one meeting of all to another, so all ranks had the same time and the same part of the program.

use crate::collectives::{Anchor, Wait};
use std::collections::VecDeque;

/// A minute or so: a stretch takes 0.2 s, or a step where that is longer.
pub(super) const STRETCHES: usize = 240;

#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    anchor: Option<Anchor>,
    /// The last meeting: which, and when.
    mark: Option<(u64, u64)>,
    covered_until_ns: u64,
    covered_ns: u64,
    /// Calls are missing since.
    is_partial: bool,
    /// The stretches before `end`; NaN where it is not known.
    own: VecDeque<f32>,
    end: u64,
}

impl Meter {
    pub(super) fn add(&mut self, wait: &Wait) {
        if wait.anchor != self.anchor {
            *self = Meter { anchor: wait.anchor, ..Meter::default() };
        }
        self.is_partial |= wait.gap;
        let start = wait.start_ns.max(self.covered_until_ns);
        self.covered_ns += wait.end_ns.saturating_sub(start);
        self.covered_until_ns = self.covered_until_ns.max(wait.end_ns);
        if let (Some(mark), Some(anchor)) = (wait.mark, self.anchor) {
            self.see(mark / anchor.every.max(1), wait.end_ns);
        }
    }

    fn see(&mut self, number: u64, at_ns: u64) {
        match self.mark {
            // Told twice.
            Some((last, _)) if number <= last => return,
            Some((last, since_ns)) if number == last + 1 && at_ns > since_ns && !self.is_partial => {
                let own = 1.0 - self.covered_ns as f64 / (at_ns - since_ns) as f64;
                self.push(own.max(0.0) as f32, number);
            }
            Some((last, _)) => {
                let missed = (number - last).min(STRETCHES as u64);
                (0..missed).for_each(|back| self.push(f32::NAN, number - (missed - 1 - back)));
            }
            None => {}
        }
        (self.mark, self.covered_ns, self.is_partial) = (Some((number, at_ns)), 0, false);
        // A clock that was set back must not hide what comes after.
        self.covered_until_ns = at_ns;
    }

    fn push(&mut self, own: f32, number: u64) {
        if self.own.len() == STRETCHES {
            self.own.pop_front();
        }
        self.own.push_back(own);
        self.end = number + 1;
    }

    /// Only ranks with the same one met each other.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        self.anchor
    }

    /// One behind the newest stretch.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Its own share of a stretch.
    pub(super) fn own(&self, stretch: u64) -> Option<f64> {
        let back = usize::try_from(self.end.checked_sub(stretch)?).ok()?;
        let at = self.own.len().checked_sub(back)?;
        self.own.get(at).map(|own| f64::from(*own)).filter(|own| own.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wait(start_ms: u64, end_ms: u64, mark: Option<u64>) -> Wait {
        let anchor = Some(Anchor { comm: 1, every: 2 });
        Wait { rank: 0, start_ns: start_ms * MS, end_ns: end_ms * MS, gap: false, mark, anchor }
    }

    /// A collective every 100 ms; every second one is a mark.
    fn see(meter: &mut Meter, seqs: std::ops::Range<u64>, takes_ms: u64) {
        for seq in seqs {
            let end = 1000 + seq * 100;
            meter.add(&wait(end - takes_ms, end, seq.is_multiple_of(2).then_some(seq)));
        }
    }

    #[test]
    fn a_tenth_in_collectives_is_nine_tenths_own() {
        let mut meter = Meter::default();
        see(&mut meter, 1..10, 10);
        assert_eq!(meter.end(), 5);
        // The first stretch has no beginning.
        assert_eq!(meter.own(1), None);
        assert!((2..5).all(|stretch| (meter.own(stretch).unwrap() - 0.9).abs() < 1e-6));
        assert_eq!(meter.own(5), None);
    }

    #[test]
    fn calls_that_overlap_count_once_and_repeated_ones_not_at_all() {
        let mut meter = Meter::default();
        see(&mut meter, 1..3, 10);
        meter.add(&wait(1220, 1260, None));
        meter.add(&wait(1230, 1250, None));
        meter.add(&wait(1240, 1270, None));
        see(&mut meter, 3..5, 10);
        see(&mut meter, 4..5, 10);
        assert!((meter.own(2).unwrap() - (1.0 - 70.0 / 200.0)).abs() < 1e-6);
        assert_eq!(meter.end(), 3);
    }

    #[test]
    fn what_was_lost_is_not_taken_for_own_time() {
        let mut meter = Meter::default();
        see(&mut meter, 1..5, 50);
        let mut after = wait(1850, 1900, None);
        after.gap = true;
        meter.add(&after);
        see(&mut meter, 10..20, 50);
        assert!((meter.own(2).unwrap() - 0.5).abs() < 1e-6);
        assert!((3..=5).all(|stretch| meter.own(stretch).is_none()));
        assert!((6..=9).all(|stretch| (meter.own(stretch).unwrap() - 0.5).abs() < 1e-6));
    }
}
