//! A whole cohort against its own past: all ranks slower than they were, which no comparison among them shows.

use crate::robust::{MAD_TO_SIGMA, mad, median, quantile};
use std::collections::VecDeque;

const SLOT_NS: u64 = 10_000_000_000;
/// An hour.
const SLOTS: usize = 360;
/// Two minutes must be known before the present is compared with them.
const FEWEST: usize = 12;
/// Slots in a row that are beyond, to say so; and below, to take it back.
const ENTER: usize = 3;
const LEAVE: usize = 3;
/// A cohort that stays slower for six hours is slower for good.
const GIVE_UP: usize = 2160;
/// Slower by less is not worth telling.
const MIN_SHARE: f64 = 0.05;

#[derive(Debug, Clone, Default)]
pub(super) struct Regression {
    past: VecDeque<f32>,
    slot: u64,
    values: Vec<f64>,
    beyond: usize,
    below: usize,
    /// While it is slower, the past stays what it was.
    since_ns: Option<u64>,
    slots_since: usize,
    /// Candidates for the past: they are not taken while it may be the beginning of a regression.
    held: Vec<f32>,
    now: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slower {
    pub since_ns: u64,
    pub value: f64,
    pub past: f64,
    pub threshold: f64,
}

impl Regression {
    /// The cohort's median of a signal of which more is worse.
    pub(super) fn see(&mut self, now_ns: u64, value: f64) {
        let slot = now_ns / SLOT_NS;
        if slot != self.slot {
            self.close(now_ns);
            self.slot = slot;
        }
        /// Judgements are a quarter of a second apart or more; more in a slot tell nothing more.
        const MAX: usize = 64;
        if self.values.len() < MAX {
            self.values.push(value);
        }
    }

    fn close(&mut self, now_ns: u64) {
        let Some(value) = median(&mut std::mem::take(&mut self.values)) else { return };
        self.now = value;
        let Some((past, threshold)) = self.levels() else {
            self.past.push_back(value as f32);
            return;
        };
        let limit = if self.since_ns.is_some() { past + (threshold - past) / 2.0 } else { threshold };
        if value > limit {
            (self.beyond, self.below) = (self.beyond + 1, 0);
            self.held.push(value as f32);
        } else {
            (self.beyond, self.below) = (0, self.below + 1);
            let held = std::mem::take(&mut self.held);
            if self.since_ns.is_none() {
                held.into_iter().chain([value as f32]).for_each(|value| self.remember(value));
            }
        }
        if self.since_ns.is_some() {
            self.slots_since += 1;
            if self.below >= LEAVE {
                self.since_ns = None;
            } else if self.slots_since >= GIVE_UP {
                *self = Regression { slot: self.slot, ..Regression::default() };
            }
        } else if self.beyond >= ENTER {
            self.since_ns = Some(now_ns.saturating_sub(self.beyond as u64 * SLOT_NS));
            self.slots_since = 0;
            self.held.clear();
        }
    }

    fn remember(&mut self, value: f32) {
        if self.past.len() == SLOTS {
            self.past.pop_front();
        }
        self.past.push_back(value);
    }

    fn levels(&self) -> Option<(f64, f64)> {
        if self.past.len() < FEWEST {
            return None;
        }
        let values: Vec<f64> = self.past.iter().map(|value| f64::from(*value)).collect();
        let middle = median(&mut values.clone())?;
        // Steps have long tails: what the past itself reached now and then is no news.
        let tail = quantile(&mut values.clone(), 0.95)? - middle;
        let spread = (3.0 * MAD_TO_SIGMA * mad(&values, middle)).max(2.0 * tail);
        Some((middle, middle + spread.max(MIN_SHARE * middle.abs())))
    }

    pub(super) fn slower(&self) -> Option<Slower> {
        let since_ns = self.since_ns?;
        let (past, threshold) = self.levels()?;
        Some(Slower { since_ns, value: self.now, past, threshold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn run(regression: &mut Regression, from: u64, to: u64, value: impl Fn(u64) -> f64) {
        (from..to).for_each(|at| regression.see(at * SECOND, value(at)));
    }

    #[test]
    fn a_cohort_that_slows_down_is_told_and_its_recovery_too() {
        let noisy = |at: u64| 0.1 + (at * 7919 % 13) as f64 * 1e-4;
        let mut regression = Regression::default();
        run(&mut regression, 0, 300, noisy);
        assert_eq!(regression.slower(), None);
        run(&mut regression, 300, 340, |at| noisy(at) * 1.2);
        let slower = regression.slower().unwrap();
        assert!((slower.value / slower.past - 1.2).abs() < 0.02, "{slower:?}");
        // It stays told however long it lasts.
        run(&mut regression, 340, 3000, |at| noisy(at) * 1.2);
        assert!(regression.slower().is_some());
        run(&mut regression, 3000, 3060, noisy);
        assert_eq!(regression.slower(), None);
    }

    #[test]
    fn noise_is_no_regression() {
        let mut regression = Regression::default();
        run(&mut regression, 0, 3600, |at| 0.1 * (1.0 + (at * 48271 % 97) as f64 / 970.0));
        assert_eq!(regression.slower(), None);
    }
}
