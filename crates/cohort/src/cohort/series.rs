//! The newest values of one signal of one rank.

use std::collections::VecDeque;

/// A minute of pushes, one a second.
pub(super) const VALUES: usize = 64;
const WINDOW_MS: u32 = 60_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    /// When, in milliseconds that wrap, and what; the oldest first.
    values: VecDeque<(u32, f32)>,
}

impl Series {
    pub(super) fn push(&mut self, seen_ns: u64, value: f64, most: usize) {
        let now = ms(seen_ns);
        while self.values.len() >= most
            || self.values.front().is_some_and(|(at, _)| {
                now.wrapping_sub(*at) > WINDOW_MS && now.wrapping_sub(*at) < u32::MAX / 2
            })
        {
            self.values.pop_front();
        }
        self.values.push_back((now, value as f32));
    }

    /// The newest first; nothing of a rank that has not told this signal lately.
    pub(super) fn newest(&self, now_ns: u64, stale_ns: u64) -> impl Iterator<Item = f64> + '_ {
        let age = self.values.back().map_or(u32::MAX, |(at, _)| ms(now_ns).wrapping_sub(*at));
        // What came after `now` is not old.
        let is_fresh = age > u32::MAX / 2 || u64::from(age) <= stale_ns / 1_000_000;
        let taken = if is_fresh && !self.values.is_empty() { self.values.len() } else { 0 };
        self.values.iter().rev().take(taken).map(|(_, value)| f64::from(*value))
    }

    /// The newest first, of each time that something was told; 0 where this signal was not.
    pub(super) fn at_each<'a>(
        &'a self,
        heard: &'a Series,
        now_ns: u64,
        stale_ns: u64,
    ) -> impl Iterator<Item = f64> + 'a {
        let mut reported = self.values.iter().rev().peekable();
        let times = heard.newest(now_ns, stale_ns).zip(heard.values.iter().rev());
        times.map(move |(_, (at, _))| {
            // What is newer than that was not heard of, so it is not compared.
            while reported.next_if(|(of, _)| of != at && at.wrapping_sub(*of) > u32::MAX / 2).is_some() {}
            reported.next_if(|(of, _)| of == at).map_or(0.0, |(_, value)| f64::from(*value))
        })
    }

    /// Whether the newest is of that time.
    pub(super) fn has(&self, seen_ns: u64) -> bool {
        self.values.back().is_some_and(|(at, _)| *at == ms(seen_ns))
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

fn ms(ns: u64) -> u32 {
    (ns / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_series_holds_a_minute_and_no_more_than_its_size() {
        let mut series = Series::default();
        for at in 0..100 {
            series.push(at * SECOND, at as f64, VALUES);
        }
        assert_eq!(series.newest(99 * SECOND, 10 * SECOND).collect::<Vec<_>>().len(), 61);
        for at in 0..1000 {
            series.push(100 * SECOND + at, 1.0, VALUES);
        }
        assert_eq!(series.len(), VALUES);
        assert_eq!(series.newest(101 * SECOND, 10 * SECOND).next(), Some(1.0));
    }

    #[test]
    fn what_was_not_told_beside_others_is_zero() {
        let (mut heard, mut reported) = (Series::default(), Series::default());
        for at in 1..=6 {
            heard.push(at * SECOND, 0.0, VALUES);
            if at % 2 == 0 {
                reported.push(at * SECOND, at as f64, VALUES);
            }
        }
        let each = |heard: &Series, now: u64| -> Vec<f64> {
            reported.at_each(heard, now * SECOND, 10 * SECOND).collect()
        };
        assert_eq!(each(&heard, 6), [6.0, 0.0, 4.0, 0.0, 2.0, 0.0]);
        assert!(each(&heard, 60).is_empty());
        heard.push(7 * SECOND, 0.0, VALUES);
        assert_eq!(each(&heard, 7)[..2], [0.0, 6.0]);
    }

    #[test]
    fn what_was_not_told_lately_is_nothing() {
        let mut series = Series::default();
        series.push(SECOND, 1.0, VALUES);
        assert_eq!(series.newest(12 * SECOND, 10 * SECOND).next(), None);
        assert_eq!(series.newest(5 * SECOND, 10 * SECOND).next(), Some(1.0));
    }
}
