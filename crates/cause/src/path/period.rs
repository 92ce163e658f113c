//! The unit in which a loop repeats, found from outside: what comes once in each of its turns.

use crate::activity::{Activity, BeatKind, ThreadWait};
use gpuwhy_model::{Cause, Part, Reason, Span};
use std::collections::BTreeMap;

/// Where the turns of a loop begin.
#[derive(Debug, Clone)]
pub(crate) struct Period {
    pub(crate) kind: BeatKind,
    /// In order.
    pub(crate) times: Vec<u64>,
    pub(crate) median_ns: u64,
    /// The waits it is found by: all of them are counted, not all recorded.
    pub(crate) of: Option<Waits>,
}

/// Waits of one thread, for one other or for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) tid: u32,
    pub(crate) by_tid: u32,
    pub(crate) cause: Cause,
}

/// Fewer are no loop.
const MIN_BEATS: usize = 6;
/// Waits that follow each other faster than this mark no turns.
const MIN_POLL_NS: u64 = 2_000_000;
/// A gap of more than this many medians is a stall or another phase, not a turn of the loop.
const REGULAR: u64 = 4;
/// The share of the time that regular gaps must cover, compared with the best candidate.
const AS_GOOD: f64 = 0.8;
/// And of all the time: what happens for a moment only is not the loop.
const MIN_COVERED: f64 = 0.1;

/// What comes once in each turn, or nothing where no period is found.
pub(crate) fn period(activity: &Activity, pid: u32, span: Span) -> Option<Period> {
    let mut sequences: BTreeMap<(BeatKind, u64), (Option<Waits>, Vec<u64>)> = BTreeMap::new();
    for beat in activity.beats.iter().filter(|beat| beat.pid == pid) {
        sequences.entry((beat.kind, beat.key)).or_default().1.push(beat.time_ns);
    }
    for wait in activity.waits.iter().filter(|wait| wait.pid == pid) {
        if let Some(key) = key_of(activity, wait) {
            let of = Waits {
                tid: wait.tid,
                by_tid: wait.by_tid,
                cause: Cause::of_part(None, wait.part, wait.by_pid),
            };
            let (waits, times) = sequences.entry(key).or_default();
            *waits = Some(of);
            times.push(wait.end_ns);
        }
    }
    let mut candidates: Vec<(Period, f64)> = sequences
        .into_iter()
        .filter_map(|((kind, _), (of, times))| candidate(kind, of, times, span))
        .filter(|(_, covered)| *covered >= MIN_COVERED)
        .collect();
    let best = candidates.iter().map(|(_, covered)| *covered).fold(0.0, f64::max);
    candidates.retain(|(_, covered)| *covered >= best * AS_GOOD);
    // The kind that says most; of one kind the longest period: what comes several times in a turn is no turn.
    candidates
        .into_iter()
        .min_by_key(|(period, _)| (period.kind, std::cmp::Reverse(period.median_ns)))
        .map(|(period, _)| period)
}

/// Which sequence a wait belongs to, if it may mark turns.
fn key_of(activity: &Activity, wait: &ThreadWait) -> Option<(BeatKind, u64)> {
    let Part::Blocked(reason) = wait.part else { return None };
    let calls = |tid: u32| activity.callers.get(&tid).is_some_and(|caller| caller.pid == wait.pid);
    let pair = u64::from(wait.tid) << 32 | u64::from(wait.by_tid);
    match reason {
        Reason::Futex if calls(wait.tid) && calls(wait.by_tid) => Some((BeatKind::HandOver, pair)),
        Reason::Futex | Reason::File | Reason::Socket | Reason::Poll | Reason::Sleep | Reason::Other
            if calls(wait.tid) =>
        {
            Some((BeatKind::Wait, pair.rotate_left(8) ^ reason as u64))
        }
        _ => None,
    }
}

fn candidate(kind: BeatKind, of: Option<Waits>, mut times: Vec<u64>, span: Span) -> Option<(Period, f64)> {
    times.retain(|time| (span.start_ns..=span.end_ns).contains(time));
    times.sort_unstable();
    times.dedup();
    if times.len() < MIN_BEATS {
        return None;
    }
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let median_ns = gaps[gaps.len() / 2].max(1);
    // Many short waits are polling, not turns of a loop.
    if kind == BeatKind::Wait && median_ns < MIN_POLL_NS {
        return None;
    }
    let regular: u64 = gaps.iter().filter(|gap| **gap <= median_ns * REGULAR).sum();
    Some((Period { kind, times, median_ns, of }, regular as f64 / span.ns().max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Beat, Caller, Syscall};
    use gpuwhy_model::OpId;

    const MS: u64 = 1_000_000;

    fn wait(tid: u32, end_ns: u64, reason: Reason, by_tid: u32) -> ThreadWait {
        ThreadWait {
            start_ns: end_ns - MS,
            end_ns,
            pid: 1,
            tid,
            part: Part::Blocked(reason),
            op: OpId::NONE,
            by_pid: 1,
            by_tid,
            woken_by: None,
            syscall: Syscall::Other,
            object: None,
        }
    }

    fn activity(waits: Vec<ThreadWait>, callers: &[u32]) -> Activity {
        let caller = Caller { pid: 1, calls: 10, ..Caller::default() };
        Activity { waits, callers: callers.iter().map(|tid| (*tid, caller)).collect(), ..Activity::default() }
    }

    const SECOND: Span = Span { start_ns: 0, end_ns: 1000 * MS };

    #[test]
    fn a_hand_over_marks_turns_and_several_sleeps_in_each_do_not() {
        let mut waits = Vec::new();
        for turn in 0..40 {
            waits.push(wait(1, (turn * 25 + 20) * MS, Reason::Futex, 2));
            waits.extend((1..5).map(|part| wait(1, (turn * 25 + part * 4) * MS, Reason::Sleep, 0)));
        }
        let found = period(&activity(waits, &[1, 2]), 1, SECOND).unwrap();
        assert_eq!((found.kind, found.median_ns, found.times.len()), (BeatKind::HandOver, 25 * MS, 40));
    }

    #[test]
    fn marks_win_and_what_stopped_early_does_not_count() {
        let waits = (0..40).map(|turn| wait(1, (turn * 25 + 20) * MS, Reason::Sleep, 0)).collect();
        let mut all = activity(waits, &[1]);
        let beat = |kind, time_ns| Beat { pid: 1, kind, key: 0, time_ns };
        all.beats.extend((0..8).map(|n| beat(BeatKind::Collective, n * MS)));
        assert_eq!(period(&all, 1, SECOND).unwrap().kind, BeatKind::Wait);
        all.beats.extend((0..20).map(|n| beat(BeatKind::Mark, n * 50 * MS)));
        assert_eq!(period(&all, 1, SECOND).unwrap().median_ns, 50 * MS);
    }

    #[test]
    fn threads_that_make_no_calls_mark_nothing() {
        let waits = (0..40).map(|turn| wait(9, (turn * 25 + 20) * MS, Reason::Sleep, 0)).collect();
        assert!(period(&activity(waits, &[1]), 1, SECOND).is_none());
    }
}
