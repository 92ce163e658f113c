//! What share of the time a rank was on its own, outside collectives, in steps of a quarter of a second.
//!
//! Ranks meet at collectives, so all take the same time for a step; but whoever is slow waits less. Its own time is told by
//! its own clock alone, and a rank that comes late because it had to wait elsewhere has no more of it than its peers.

use crate::collectives::Wait;
use std::collections::VecDeque;

/// A straggler of 5% is to be found in seconds, and noise of single steps to be averaged.
pub(super) const BLOCK_NS: i64 = 250_000_000;
/// A minute.
pub(super) const BLOCKS: usize = 240;
/// A rank that was in no collective for so long starts afresh.
const AWAY_NS: i64 = 60_000_000_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    epoch: u32,
    covered_until_ns: i64,
    /// The one being filled, counted from the clock's beginning.
    open: i64,
    covered_ns: i64,
    /// Calls are missing in the open one, or it did not begin with us.
    is_partial: bool,
    /// The blocks before `open`; NaN where it is not known.
    own: VecDeque<f32>,
    started: bool,
}

impl Meter {
    pub(super) fn add(&mut self, wait: &Wait) {
        let jumped = (wait.start_ns - self.covered_until_ns).abs() > AWAY_NS;
        if !self.started || wait.epoch != self.epoch || jumped {
            *self = Meter {
                epoch: wait.epoch,
                covered_until_ns: wait.start_ns,
                open: wait.start_ns.div_euclid(BLOCK_NS),
                is_partial: true,
                started: true,
                ..Meter::default()
            };
        }
        if wait.gap {
            self.is_partial = true;
        }
        let start = wait.start_ns.max(self.covered_until_ns);
        self.close_until(start, wait.gap);
        if wait.gap {
            self.is_partial = true;
        }
        let mut from = start;
        while from < wait.end_ns {
            let block_end = (self.open + 1) * BLOCK_NS;
            let to = wait.end_ns.min(block_end);
            self.covered_ns += to - from;
            from = to;
            if to == block_end {
                self.close(false);
            }
        }
        self.covered_until_ns = self.covered_until_ns.max(wait.end_ns);
    }

    fn close_until(&mut self, at_ns: i64, unknown: bool) {
        while at_ns >= (self.open + 1) * BLOCK_NS {
            self.close(unknown);
        }
    }

    fn close(&mut self, unknown: bool) {
        if self.own.len() == BLOCKS {
            self.own.pop_front();
        }
        let own = 1.0 - self.covered_ns as f64 / BLOCK_NS as f64;
        let is_known = !(self.is_partial || unknown);
        self.own.push_back(if is_known { own.max(0.0) as f32 } else { f32::NAN });
        self.open += 1;
        self.covered_ns = 0;
        self.is_partial = false;
    }

    /// One behind the newest complete block.
    pub(super) fn end(&self) -> i64 {
        self.open
    }

    /// Its own share of that block.
    pub(super) fn own(&self, block: i64) -> Option<f64> {
        let back = usize::try_from(self.open.checked_sub(block)?).ok()?;
        let at = self.own.len().checked_sub(back)?;
        self.own.get(at).map(|own| f64::from(*own)).filter(|own| own.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(start_ms: i64, end_ms: i64) -> Wait {
        Wait { rank: 0, start_ns: start_ms * 1_000_000, end_ns: end_ms * 1_000_000, gap: false, epoch: 0 }
    }

    #[test]
    fn a_quarter_second_with_a_tenth_in_collectives_is_nine_tenths_own() {
        let mut meter = Meter::default();
        for at in 0..40 {
            meter.add(&wait(at * 50 + 10, at * 50 + 15));
        }
        assert_eq!(meter.end(), 7);
        // The first one is not whole.
        assert_eq!(meter.own(0), None);
        for block in 1..7 {
            assert!((meter.own(block).unwrap() - 0.9).abs() < 1e-6, "{block}");
        }
        assert_eq!(meter.own(7), None);
    }

    #[test]
    fn a_long_wait_is_spread_over_its_blocks_and_overlaps_count_once() {
        let mut meter = Meter::default();
        meter.add(&wait(0, 10));
        meter.add(&wait(300, 900));
        meter.add(&wait(350, 880));
        meter.add(&wait(1000, 1001));
        let own: Vec<f64> = (1..4).map(|block| meter.own(block).unwrap()).collect();
        let truth = [0.2, 0.0, 0.4];
        assert!(own.iter().zip(truth).all(|(own, truth)| (own - truth).abs() < 1e-6), "{own:?}");
    }

    #[test]
    fn what_was_lost_is_not_taken_for_own_time() {
        let mut meter = Meter::default();
        (0..20).for_each(|at| meter.add(&wait(at * 50, at * 50 + 25)));
        let mut after = wait(2_000, 2_025);
        after.gap = true;
        meter.add(&after);
        (41..60).for_each(|at| meter.add(&wait(at * 50, at * 50 + 25)));
        assert!((meter.own(2).unwrap() - 0.5).abs() < 1e-6);
        assert!((3..=8).all(|block| meter.own(block).is_none()));
        assert!((meter.own(9).unwrap() - 0.5).abs() < 1e-6);
    }
}
