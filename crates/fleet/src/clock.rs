//! The clocks, in the one place that reads them. The wall clock may be set to another time while the server runs; the steady
//! one cannot.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// What both clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) wall_ns: i64,
    /// What the wall clock would say had nobody set it since the server began. Ranks are compared by it.
    pub(crate) steady_ns: i64,
}

impl Now {
    pub(crate) fn read() -> Now {
        static BEGAN: OnceLock<(Instant, i64)> = OnceLock::new();
        let wall_ns = now_ns();
        let (began, began_ns) = BEGAN.get_or_init(|| (Instant::now(), wall_ns));
        Now { wall_ns, steady_ns: began_ns + began.elapsed().as_nanos() as i64 }
    }

    /// A time is old, or ahead, only if it is so by both clocks: nobody knows which of them is right.
    pub(crate) fn earliest(self) -> i64 {
        self.wall_ns.min(self.steady_ns)
    }

    pub(crate) fn latest(self) -> i64 {
        self.wall_ns.max(self.steady_ns)
    }
}

#[cfg(test)]
impl Now {
    /// Of clocks that agree.
    pub(crate) fn at(now_ns: i64) -> Now {
        Now { wall_ns: now_ns, steady_ns: now_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::duck::tests::forgotten_at;
    use std::time::Duration;

    const DAY: i64 = 86_400_000_000_000;
    const NOW: i64 = 1_800_000_000_000_000_000;

    #[test]
    fn clocks_that_are_set_forget_nothing_that_is_young() {
        let set = |wall: i64, steady: i64| Now { wall_ns: NOW + wall, steady_ns: NOW + steady };
        // Rows of now, of 10 days ago and of 31 days ago; 30 days are kept.
        let ages = [0, 10, 31];
        let forgets = |now: Now| {
            forgotten_at(
                now.earliest(),
                Duration::from_nanos(30 * DAY as u64),
                &ages.map(|days| NOW - days * DAY),
            )
        };
        assert_eq!(forgets(set(0, 0)), 1);
        assert_eq!(forgets(set(400 * DAY, 0)), 1, "it was set a year ahead");
        assert_eq!(forgets(set(0, 400 * DAY)), 1, "it was a year ahead when the server began");
        assert_eq!(forgets(set(-400 * DAY, 0)), 0, "it was set back: later is early enough");
    }

    #[test]
    fn the_steady_clock_goes_on() {
        let (first, second) = (Now::read(), Now::read());
        assert!(second.steady_ns >= first.steady_ns);
        assert!((first.wall_ns - first.steady_ns).abs() < DAY);
    }
}
