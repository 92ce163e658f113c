//! When a mark was: by the annotator's clock where that can be so, else when it came.

use crate::spans::Moment;
use gpuwhy_model::MarkClock;
use rustix::time::{ClockId, clock_gettime};

/// A line that waited longer than this for the agent was made up, or is of another clock (a time namespace).
const OLDEST_NS: u64 = 60_000_000_000;

/// CLOCK_MONOTONIC, the clock of the kernel's records too.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `offset_ns` makes unix time of it, as of all records of the run.
pub(crate) fn moment(said_ns: Option<u64>, now_ns: u64, offset_ns: u64) -> Moment {
    match said_ns.filter(|said| *said <= now_ns && now_ns - said <= OLDEST_NS) {
        Some(said) => Moment { time_ns: said.wrapping_add(offset_ns), clock: MarkClock::Annotator },
        None => Moment { time_ns: now_ns.wrapping_add(offset_ns), clock: MarkClock::Received },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_believed_if_it_can_be_so() {
        let now = 100 * OLDEST_NS;
        let at = |said| {
            let moment = moment(said, now, 7);
            (moment.time_ns, moment.clock)
        };
        assert_eq!(at(Some(now - 5)), (now - 5 + 7, MarkClock::Annotator));
        for said in [None, Some(now + 1), Some(now - OLDEST_NS - 1), Some(u64::MAX)] {
            assert_eq!(at(said), (now + 7, MarkClock::Received));
        }
    }
}
