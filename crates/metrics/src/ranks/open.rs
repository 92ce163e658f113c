//! Waits that are not over. The kernel adds a wait up when it ends; one that takes seconds would be told of when it no longer
//! matters. Threads are met between their calls, and what they are in then is known until that moment.

use gpuwhy_cause::RETRANSMIT_TIMER_NS;
use gpuwhy_model::{BetweenCalls, Cause, Part};
use std::collections::HashMap;

/// Shorter ones are over soon.
const LONG_NS: u64 = 100_000_000;
/// A wait that was met before may be over and added up by now.
const RECENT_NS: u64 = 100_000_000;
/// Threads come and go: beyond so many, those that were not met lately are forgotten.
const MAX_THREADS: usize = 1024;
/// What was told before it was over is added up a report later, or two.
const ADDED_UP_AFTER: u32 = 2;

/// The last a thread was met in.
#[derive(Debug, Clone, Copy)]
struct Wait {
    cause: Cause,
    since_ns: u64,
    seen_ns: u64,
    /// Of it, what is told.
    reported_ns: u64,
    /// When a segment was last sent again in the meantime.
    sent_again_ns: Option<u64>,
}

/// Of the threads of a rank.
#[derive(Debug, Default)]
pub(super) struct OpenWaits {
    waits: HashMap<u32, Wait>,
    /// By thread and cause: told, and not added up yet; and for how many reports.
    ahead: HashMap<(u32, Cause), (u64, u32)>,
}

impl OpenWaits {
    pub(super) fn see(&mut self, seen: &BetweenCalls) {
        let Part::Blocked(_) = seen.part else {
            self.waits.remove(&seen.tid);
            return;
        };
        let cause = Cause::of_part(None, seen.part, 0);
        let known = self.waits.get(&seen.tid).filter(|wait| wait.since_ns == seen.since_ns).copied();
        let (reported_ns, sent_again_ns) =
            known.map_or((0, None), |wait| (wait.reported_ns, wait.sent_again_ns));
        let wait = Wait { cause, since_ns: seen.since_ns, seen_ns: seen.time_ns, reported_ns, sent_again_ns };
        if self.waits.len() >= MAX_THREADS {
            self.waits.retain(|_, wait| wait.seen_ns + RECENT_NS >= seen.time_ns);
        }
        self.waits.insert(seen.tid, wait);
    }

    /// A segment of the process was sent again.
    pub(super) fn sends_again(&mut self, at_ns: u64) {
        for wait in self.waits.values_mut().filter(|wait| wait.since_ns <= at_ns) {
            wait.sent_again_ns = wait.sent_again_ns.max(Some(at_ns));
        }
    }

    /// What a thread has waited since it was told last, while that is not over: at most `room_ns`.
    pub(super) fn emit(&mut self, tid: u32, now_ns: u64, room_ns: u64) -> Vec<(Cause, u64)> {
        self.ahead.retain(|_, (_, reports)| {
            *reports += 1;
            *reports <= ADDED_UP_AFTER
        });
        let Some(wait) = self.waits.get_mut(&tid) else { return Vec::new() };
        let waited_ns = wait.seen_ns.saturating_sub(wait.since_ns);
        let new_ns = waited_ns.saturating_sub(wait.reported_ns);
        if waited_ns < LONG_NS || wait.seen_ns + RECENT_NS < now_ns {
            return Vec::new();
        }
        let reported_ns = new_ns.min(room_ns);
        let lost_ns = wait.lost_to_network_ns().saturating_sub(waited_ns - new_ns).min(reported_ns);
        wait.reported_ns = waited_ns;
        let ahead = self.ahead.entry((tid, wait.cause)).or_default();
        *ahead = (ahead.0 + reported_ns, 0);
        let reported = [(Cause::NetTcp, lost_ns), (wait.cause, reported_ns - lost_ns)];
        reported.into_iter().filter(|(_, ns)| *ns > 0).collect()
    }

    /// Of a time that was added up, what is not told.
    pub(super) fn unreported(&mut self, tid: u32, cause: Cause, ns: u64) -> u64 {
        let Some((ahead, _)) = self.ahead.get_mut(&(tid, cause)) else { return ns };
        let reported = ns.min(*ahead);
        *ahead -= reported;
        ns - reported
    }
}

impl Wait {
    /// From its beginning on: a segment is sent again after twice the time each time, so until the next one is due.
    fn lost_to_network_ns(&self) -> u64 {
        let Some(last_ns) = self.sent_again_ns.filter(|_| self.cause == Cause::NetWait) else { return 0 };
        2 * last_ns.saturating_sub(self.since_ns) + RETRANSMIT_TIMER_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{OpId, Reason};

    const MS: u64 = 1_000_000;

    fn seen(since_ms: u64, at_ms: u64, reason: Reason) -> BetweenCalls {
        BetweenCalls {
            time_ns: at_ms * MS,
            pid: 7,
            tid: 7,
            since_ns: since_ms * MS,
            part: Part::Blocked(reason),
            last_call_ns: 1,
            op: OpId::NONE,
            weight_ns: 0,
            stack_id: None,
            thread_pointer: 0,
        }
    }

    #[test]
    fn each_moment_of_a_wait_is_told_once() {
        let mut open = OpenWaits::default();
        open.see(&seen(200, 950, Reason::Sleep));
        assert_eq!(open.emit(7, 1000 * MS, 1000 * MS), [(Cause::SelfSleep, 750 * MS)]);
        open.see(&seen(200, 1950, Reason::Sleep));
        assert_eq!(open.emit(7, 2000 * MS, 1000 * MS), [(Cause::SelfSleep, 1000 * MS)]);
        // It ends at 2300.
        assert_eq!(open.unreported(7, Cause::SelfSleep, 2100 * MS), 350 * MS);
        assert_eq!(open.unreported(7, Cause::SelfSleep, 10 * MS), 10 * MS);
        assert_eq!(open.emit(7, 3000 * MS, 1000 * MS), [], "it was met too long ago");
    }

    #[test]
    fn threads_that_are_gone_are_forgotten() {
        let mut open = OpenWaits::default();
        for tid in 0..10_000 {
            let at_ms = 1000 + u64::from(tid);
            open.see(&BetweenCalls { tid, ..seen(at_ms - 500, at_ms, Reason::Futex) });
        }
        assert!(open.waits.len() <= MAX_THREADS, "{}", open.waits.len());
        assert_eq!(open.emit(9_999, 10_999 * MS, 1000 * MS), [(Cause::LockFutex, 500 * MS)]);
    }

    #[test]
    fn what_is_not_added_up_under_that_name_is_not_taken_from_others_for_ever() {
        let mut open = OpenWaits::default();
        open.see(&seen(0, 900, Reason::Futex));
        assert_eq!(
            open.emit(7, 900 * MS, 500 * MS),
            [(Cause::LockFutex, 500 * MS)],
            "no more than there is room"
        );
        for report in 1..=3 {
            open.emit(7, 900 * MS + report * 1000 * MS, 0);
        }
        assert_eq!(open.unreported(7, Cause::LockFutex, 80 * MS), 80 * MS);
    }

    #[test]
    fn a_segment_that_is_sent_again_and_again_explains_the_wait_until_the_next_one_is_due() {
        let mut open = OpenWaits::default();
        open.see(&seen(0, 100, Reason::Socket));
        open.sends_again(200 * MS);
        open.sends_again(600 * MS);
        open.see(&seen(0, 1000, Reason::Socket));
        assert_eq!(open.emit(7, 1000 * MS, 1000 * MS), [(Cause::NetTcp, 1000 * MS)]);
        // The next one is due at 1400; then it waits for something else.
        open.see(&seen(0, 2000, Reason::Socket));
        assert_eq!(
            open.emit(7, 2000 * MS, 1000 * MS),
            [(Cause::NetTcp, 400 * MS), (Cause::NetWait, 600 * MS)]
        );
        assert_eq!(open.unreported(7, Cause::NetWait, 2100 * MS), 100 * MS);
    }
}
