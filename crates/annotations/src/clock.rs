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

/// The clock of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Makes unix time of it, as of all records of the run.
    pub(crate) offset_ns: u64,
    /// Before it nobody listened, and nothing can have been said.
    pub(crate) began_ns: u64,
}

impl Clock {
    pub(crate) fn moment(&self, sent_ns: Option<u64>, now_ns: u64) -> Moment {
        let oldest = now_ns.saturating_sub(OLDEST_NS).max(self.began_ns);
        match sent_ns.filter(|message| (oldest..=now_ns).contains(message)) {
            Some(message) => {
                Moment { time_ns: message.wrapping_add(self.offset_ns), clock: MarkClock::Annotator }
            }
            None => Moment { time_ns: now_ns.wrapping_add(self.offset_ns), clock: MarkClock::Received },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_believed_if_it_can_be_so() {
        let now = 100 * OLDEST_NS;
        let at = |message| {
            let moment = Clock { offset_ns: 7, began_ns: 0 }.moment(message, now);
            (moment.time_ns, moment.clock)
        };
        assert_eq!(at(Some(now - 5)), (now - 5 + 7, MarkClock::Annotator));
        for message in [None, Some(now + 1), Some(now - OLDEST_NS - 1), Some(u64::MAX)] {
            assert_eq!(at(message), (now + 7, MarkClock::Received));
        }
        let young = Clock { offset_ns: 0, began_ns: now - 10 };
        assert_eq!(young.moment(Some(now - 11), now).clock, MarkClock::Received, "before the trace began");
    }
}
