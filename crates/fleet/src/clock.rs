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
