//! A counter of the kernel's, read now and then.

/// A count and a time that rise together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counter {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
}

impl Counter {
    /// What came since the last reading. A count that fell began anew: its place was given to something else.
    pub(crate) fn rise_to(&mut self, now: Counter) -> Counter {
        let before = if now.count < self.count { Counter::default() } else { *self };
        *self = now;
        Counter { count: now.count - before.count, sum_ns: now.sum_ns.saturating_sub(before.sum_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_fell_began_anew() {
        let mut counter = Counter::default();
        let at = |count, sum_ns| Counter { count, sum_ns };
        assert_eq!(counter.rise_to(at(5, 50)), at(5, 50));
        assert_eq!(counter.rise_to(at(7, 90)), at(2, 40));
        assert_eq!(counter.rise_to(at(3, 30)), at(3, 30));
    }
}
