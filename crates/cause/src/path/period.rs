//! The unit in which a loop repeats, found from outside: what comes once in each of its turns.

use super::pairs::one_of_pairs;
use crate::activity::{Activity, BeatCount, BeatKind, ThreadWait};
use gpuwhy_model::{Cause, Part, Reason, Span};
use std::collections::BTreeMap;

/// Where the turns of a loop begin.
#[derive(Debug, Clone)]
pub(crate) struct Period {
    pub(crate) kind: BeatKind,
    /// In order.
    pub(crate) times: Vec<u64>,
    pub(crate) median_ns: u64,
    /// How all of them are counted, where not all are recorded.
    pub(crate) counted_by: Option<CountedBy>,
    /// They were counted until then, though not recorded any more.
    pub(crate) counted_until_ns: u64,
}

impl Period {
    /// Only how many there are is known, not when each began.
    pub(crate) fn is_count_only(&self) -> bool {
        matches!(self.counted_by, Some(CountedBy::Total(_)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CountedBy {
    Waits(Waits),
    Rate(Rate),
    /// So many in all. What lies between two recorded ones is no turn.
    Total(u64),
}

/// Calls a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// In the half seconds in which some of them were recorded.
    while_recorded: f64,
}

impl Rate {
    fn times(self, share: f64) -> Rate {
        Rate { per_second: self.per_second * share, while_recorded: self.while_recorded * share }
    }
}

/// Waits of one thread, for one other or for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) tid: u32,
    pub(crate) by_tid: u32,
    pub(crate) cause: Cause,
}

/// A thread that is handed the work has one in so many of the calls; one that pins memory or logs has fewer.
const LAUNCHES_A_PART: u64 = 20;
/// Fewer are no loop.
const MIN_BEATS: usize = 6;
/// Waits that follow each other faster than this mark no turns.
const MIN_POLL_NS: u64 = 2_000_000;
/// A gap of more than this many medians is a stall or another phase, not a turn of the loop.
const REGULAR: u64 = 4;
/// The same where the beats are surely those of steps, which may differ: of a loader that comes with several batches at once.
const REGULAR_STEPS: u64 = 20;
/// Every wait from here on is recorded; of shorter ones the first of each half second are.
const ALL_RECORDED_NS: u64 = 10_000_000;
/// Calls at one place that come so many times more rarely than all of their operation are not once in each step: a handle that
/// is used again by chance.
const MAX_IN_A_STEP: u64 = 64;
/// Calls are counted by windows of this length.
const WINDOW_NS: u64 = 500_000_000;
/// The share of the time that regular gaps must cover, compared with the best candidate.
const AS_GOOD: f64 = 0.8;
/// Consecutive turns sum to the time; up to this multiple of it.
const CONSECUTIVE: f64 = 1.5;
/// And of all the time: what happens for a moment only is not the loop.
const MIN_COVERED: f64 = 0.1;
/// The program's own marks are its steps, though it does other things, too.
const MIN_COVERED_BY_MARKS: f64 = 0.3;
const MIN_COVERED_BY_CALLS: f64 = 0.35;
/// Of calls that come at different rates, the rarest are taken up to so many of the others for each.
const MAX_CALLS_IN_A_STEP: u64 = 8;

/// What may come once in each turn, by kind and key: how all are counted, and when the recorded ones were.
pub(super) type Sequences = BTreeMap<(BeatKind, u64), (Option<CountedBy>, Vec<u64>)>;

/// What comes once in each turn, or nothing where no period is found.
pub(crate) fn period(activity: &Activity, pid: u32, span: Span) -> Option<Period> {
    let mut sequences = Sequences::new();
    let mut counted_as: BTreeMap<(BeatKind, u64), u64> = BTreeMap::new();
    for beat in activity
        .beats
        .iter()
        .filter(|beat| beat.pid == pid && (span.start_ns..=span.end_ns).contains(&beat.time_ns))
    {
        sequences.entry((beat.kind, beat.key)).or_default().1.push(beat.time_ns);
        counted_as.insert((beat.kind, beat.key), beat.counted_as);
    }
    let recorded_of: BTreeMap<(BeatKind, u64), u64> =
        sequences.iter().map(|(of, (_, times))| (*of, times.len() as u64)).collect();
    let mut waited: BTreeMap<(BeatKind, u64), Vec<u64>> = BTreeMap::new();
    let rates = rates(activity, pid, span, &sequences, &counted_as);
    for (of, (counted_by, _)) in &mut sequences {
        *counted_by = rates.get(of).copied().map(CountedBy::Rate);
    }
    let calls: u64 =
        activity.callers.values().filter(|caller| caller.pid == pid).map(|caller| caller.calls).sum();
    for wait in activity.waits.iter().filter(|wait| wait.pid == pid) {
        if let Some(key) = key_of(activity, wait, calls / LAUNCHES_A_PART) {
            let of = Waits {
                tid: wait.tid,
                by_tid: wait.by_tid,
                cause: Cause::of_part(None, wait.part, wait.by_pid),
            };
            let (counted_by, times) = sequences.entry(key).or_default();
            *counted_by = Some(CountedBy::Waits(of));
            times.push(wait.end_ns);
            waited.entry(key).or_default().push(wait.ns());
        }
    }
    one_of_pairs(&mut sequences);
    for (key, mut lengths) in waited {
        lengths.sort_unstable();
        let are_all_recorded = lengths.get(lengths.len() / 10).is_some_and(|ns| *ns >= ALL_RECORDED_NS);
        if let Some((counted_by, _)) = sequences.get_mut(&key).filter(|_| are_all_recorded) {
            *counted_by = None;
        }
    }
    let candidates = sequences.into_iter().filter(|(of, (_, times))| {
        let of_op = counted_as.get(of).and_then(|key| recorded_of.get(&(of.0, *key)));
        of_op.is_none_or(|of_op| times.len() as u64 * MAX_IN_A_STEP >= *of_op)
    });
    let counts = graph_counts(activity, pid, &counted_as, &recorded_of, span);
    let candidates = candidates.filter_map(|(of, (counted_by, times))| {
        let (mut period, covered) = candidate(of.0, counted_by, times, span)?;
        let windows = counted_as.get(&of).and_then(|op| activity.beat_counts.get(&(pid, of.0, *op)));
        period.counted_until_ns = windows.map_or(0, |windows| counted_until(windows, span));
        Some((period, covered))
    });
    let candidates = candidates.chain(counts);
    // Calls come several times in a step, or in bursts: they tell where nothing else does.
    let (calls, others): (Vec<_>, Vec<_>) = candidates.partition(|(period, _)| is_of_calls(period.kind));
    best_of(others, MIN_COVERED).or_else(|| best_of_calls(calls))
}

/// Calls a second, by sequence, where more were made than recorded: of an operation, and of each place it is called from.
fn rates(
    activity: &Activity,
    pid: u32,
    span: Span,
    sequences: &Sequences,
    counted_as: &BTreeMap<(BeatKind, u64), u64>,
) -> BTreeMap<(BeatKind, u64), Rate> {
    let times_of = |kind: BeatKind, key: u64| sequences.get(&(kind, key)).map_or(&[][..], |(_, times)| times);
    // Recorded calls of an operation whose place is known: stacks are not taken of all.
    let mut placed: BTreeMap<(BeatKind, u64), Vec<u64>> = BTreeMap::new();
    for ((kind, key), op) in counted_as.iter().filter(|((_, key), op)| key != *op) {
        placed.entry((*kind, *op)).or_default().extend(times_of(*kind, *key));
    }
    let of = |kind: BeatKind, key: u64, op: u64| {
        let recorded = times_of(kind, op);
        let of_all = || rate(activity, (pid, kind, op), recorded, span);
        if key == op {
            return of_all();
        }
        // Those at one place are as many of all as of the recorded ones with a place, while it was called at all: a loop calls
        // from other places than what goes before it.
        let times = times_of(kind, key);
        let (first, last) = (times.iter().min().copied()?, times.iter().max().copied()?);
        // The turns of the first and the last of them have other calls before and behind them.
        let half_gap = (last - first) / (2 * times.len() as u64);
        let own = Span { start_ns: first.saturating_sub(half_gap), end_ns: last + half_gap };
        // They go on though no more of them are recorded.
        let since = Span { end_ns: span.end_ns, ..own };
        let rate = rate(activity, (pid, kind, op), recorded, since).or_else(of_all)?;
        let others = placed.get(&(kind, op))?;
        let meanwhile = others.iter().filter(|time| (own.start_ns..=own.end_ns).contains(*time)).count();
        Some(rate.times(times.len() as f64 / meanwhile.max(1) as f64))
    };
    let rates =
        counted_as.iter().filter_map(|((kind, key), op)| Some(((*kind, *key), of(*kind, *key, *op)?)));
    rates.collect()
}

/// Launches of graphs are counted exactly. Where too few of them are recorded to tell their turns, their number does: a decode
/// step is one launch, or one of each graph it is made of.
fn graph_counts(
    activity: &Activity,
    pid: u32,
    counted_as: &BTreeMap<(BeatKind, u64), u64>,
    recorded_of: &BTreeMap<(BeatKind, u64), u64>,
    span: Span,
) -> Vec<(Period, f64)> {
    let kind = BeatKind::GraphLaunch;
    let of_op = |op: u64| {
        let windows = activity.beat_counts.get(&(pid, kind, op))?;
        let within = windows.iter().filter(|window| {
            window.window_start_ns + WINDOW_NS > span.start_ns && window.window_start_ns < span.end_ns
        });
        let (launches, busy_ns) =
            within.fold((0, 0), |(sum, ns), window| (sum + window.count, ns + WINDOW_NS));
        let graphs: Vec<u64> = counted_as
            .iter()
            .filter(|((of, key), counted)| *of == kind && **counted == op && *key != op)
            .filter_map(|(of, _)| recorded_of.get(of).copied())
            .collect();
        let (fewest, most) = (graphs.iter().min().copied()?, graphs.iter().max().copied()?);
        // Graphs that are launched equally often are parts of one step; else each is a step of another size.
        let in_a_step = if fewest * 3 >= most * 2 { graphs.len() as u64 } else { 1 };
        let count = launches / in_a_step;
        let covered = (busy_ns as f64 / span.ns().max(1) as f64).min(1.0);
        let period = Period {
            kind,
            times: Vec::new(),
            median_ns: span.ns() / count.max(1),
            counted_by: Some(CountedBy::Total(count)),
            counted_until_ns: 0,
        };
        (count >= MIN_BEATS as u64 && covered >= MIN_COVERED_BY_CALLS).then_some((period, covered))
    };
    let ops = counted_as.iter().filter(|((of, key), op)| *of == kind && key == *op);
    ops.filter_map(|(_, op)| of_op(*op)).collect()
}

/// A synchronisation for each line of a log is no step, where others come far more often.
fn best_of_calls(mut candidates: Vec<(Period, f64)>) -> Option<Period> {
    candidates.retain(|(_, covered)| *covered >= MIN_COVERED_BY_CALLS);
    let shortest = candidates.iter().map(|(period, _)| period.median_ns).min()?;
    candidates.retain(|(period, _)| period.median_ns <= shortest * MAX_CALLS_IN_A_STEP);
    best_of(candidates, MIN_COVERED_BY_CALLS)
}

fn is_of_calls(kind: BeatKind) -> bool {
    matches!(kind, BeatKind::Synchronisation | BeatKind::Copy)
}

fn best_of(mut candidates: Vec<(Period, f64)>, min_covered: f64) -> Option<Period> {
    candidates.retain(|(_, covered)| *covered >= min_covered);
    let best = candidates.iter().map(|(_, covered)| *covered).fold(0.0, f64::max);
    let are_marks =
        |period: &Period, covered: f64| period.kind == BeatKind::Mark && covered >= MIN_COVERED_BY_MARKS;
    candidates.retain(|(period, covered)| *covered >= best * AS_GOOD || are_marks(period, *covered));
    // The kind that says most; of one kind the longest period: what comes several times in a turn is no turn.
    candidates
        .into_iter()
        .min_by_key(|(period, _)| (period.kind, period.is_count_only(), std::cmp::Reverse(period.median_ns)))
        .map(|(period, _)| period)
}

/// Which sequence a wait belongs to, if it may mark turns.
fn key_of(activity: &Activity, wait: &ThreadWait, min_calls: u64) -> Option<(BeatKind, u64)> {
    let Part::Blocked(reason) = wait.part else { return None };
    let caller = |tid: u32| activity.callers.get(&tid).filter(|caller| caller.pid == wait.pid);
    let calls = |tid: u32| caller(tid).is_some();
    let launches = |tid: u32| caller(tid).is_some_and(|caller| caller.calls >= min_calls);
    let pair = u64::from(wait.tid) << 32 | u64::from(wait.by_tid);
    match reason {
        Reason::Futex if launches(wait.tid) && launches(wait.by_tid) => Some((BeatKind::HandOver, pair)),
        Reason::Futex | Reason::File | Reason::Socket | Reason::Poll | Reason::Sleep | Reason::Other
            if calls(wait.tid) =>
        {
            Some((BeatKind::Wait, pair.rotate_left(8) ^ reason as u64))
        }
        _ => None,
    }
}

/// When calls of an operation end that is called as often as before: a few more belong to the end of the program.
fn counted_until(windows: &[BeatCount], span: Span) -> u64 {
    let mut counts: Vec<u64> = windows.iter().map(|window| window.count).collect();
    counts.sort_unstable();
    let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
    let as_often = windows.iter().filter(|window| window.count * 2 >= usual);
    let until = as_often.map(|window| window.window_start_ns + WINDOW_NS).max().unwrap_or(0);
    until.min(span.end_ns)
}

/// Where more were made than recorded.
fn rate(activity: &Activity, of: (u32, BeatKind, u64), recorded: &[u64], span: Span) -> Option<Rate> {
    let windows = activity.beat_counts.get(&of)?;
    let within = |start: u64| start >= span.start_ns && start + WINDOW_NS <= span.end_ns;
    let starts: BTreeMap<u64, u64> = windows
        .iter()
        .filter(|window| within(window.window_start_ns))
        .map(|window| (window.window_start_ns, window.count))
        .collect();
    let counted: u64 = starts.values().sum();
    let window_of = |time: &u64| {
        let (start, count) = starts.range(..=*time).next_back()?;
        (*time < start + WINDOW_NS).then_some((*start, *count))
    };
    let windows_of_recorded: BTreeMap<u64, u64> = recorded.iter().filter_map(window_of).collect();
    let recorded = recorded.iter().filter_map(window_of).count() as u64;
    let per_second = |count: u64, windows: usize| count as f64 * 1e9 / (windows as f64 * WINDOW_NS as f64);
    (recorded > 0 && counted > recorded + recorded / 10).then(|| Rate {
        per_second: per_second(counted, starts.len()),
        while_recorded: per_second(windows_of_recorded.values().sum(), windows_of_recorded.len()),
    })
}

fn candidate(
    kind: BeatKind,
    counted_by: Option<CountedBy>,
    mut times: Vec<u64>,
    span: Span,
) -> Option<(Period, f64)> {
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
    let limit = match kind {
        BeatKind::Mark | BeatKind::Collective | BeatKind::HandOver => REGULAR_STEPS,
        _ => REGULAR,
    };
    let is_regular = |gap: &&u64| **gap <= median_ns * limit;
    let mut regular: u64 = gaps.iter().filter(is_regular).sum();
    // A step that takes far longer again and again, as every tenth that saves something, is one all the same.
    let others = gaps.len() - gaps.iter().filter(is_regular).count();
    if limit == REGULAR_STEPS && others >= MIN_BEATS {
        regular = gaps.iter().sum();
    }
    let mut covered = regular as f64 / span.ns().max(1) as f64;
    let mut typical_ns = median_ns;
    if let Some(CountedBy::Rate(rate)) = counted_by {
        let turns_in_median = |per_second: f64| per_second * median_ns as f64 / 1e9;
        // Recorded at random, not one after the other: what lies between two of them is no turn.
        if turns_in_median(rate.while_recorded) > CONSECUTIVE {
            return None;
        }
        // Of the time between the recorded ones the others cover as much as there are of them.
        covered = covered.max(turns_in_median(rate.per_second).min(1.0));
        // The loop was slower when they were recorded.
        if turns_in_median(rate.per_second) > CONSECUTIVE {
            typical_ns = (1e9 / rate.per_second) as u64;
        }
    }
    Some((Period { kind, times, median_ns: typical_ns, counted_by, counted_until_ns: 0 }, covered))
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
    fn steps_of_which_every_tenth_sleeps_are_steps() {
        let (mut now, mut waits) = (0, Vec::new());
        for turn in 0..100 {
            now += 2;
            waits.push(wait(1, now * MS, Reason::Futex, 2));
            if turn % 10 == 9 {
                now += 80;
                waits.push(wait(1, now * MS, Reason::Sleep, 0));
            }
        }
        let found = period(&activity(waits, &[1, 2]), 1, SECOND).unwrap();
        assert_eq!((found.kind, found.median_ns, found.times.len()), (BeatKind::HandOver, 2 * MS, 100));
    }

    #[test]
    fn of_two_threads_that_hand_over_the_one_that_waits_more_often_tells_the_turns() {
        // The main thread finds every third pass done when it comes to wait.
        let mut waits = Vec::new();
        for turn in 0..60 {
            waits.push(wait(2, (turn * 15 + 10) * MS, Reason::Futex, 1));
            waits.extend((turn % 3 != 0).then(|| wait(1, (turn * 15 + 14) * MS, Reason::Futex, 2)));
        }
        let found = period(&activity(waits, &[1, 2]), 1, SECOND).unwrap();
        assert_eq!((found.kind, found.median_ns, found.times.len()), (BeatKind::HandOver, 15 * MS, 60));
    }

    #[test]
    fn marks_win_and_what_stopped_early_does_not_count() {
        let waits = (0..40).map(|turn| wait(1, (turn * 25 + 20) * MS, Reason::Sleep, 0)).collect();
        let mut all = activity(waits, &[1]);
        let beat = |kind, time_ns| Beat { pid: 1, kind, key: 0, counted_as: 0, time_ns };
        all.beats.extend((0..8).map(|n| beat(BeatKind::Collective, n * MS)));
        assert_eq!(period(&all, 1, SECOND).unwrap().kind, BeatKind::Wait);
        // Half of the time it does something else, which it does not mark.
        all.beats.extend((0..10).map(|n| beat(BeatKind::Mark, n * 50 * MS)));
        assert_eq!(period(&all, 1, SECOND).unwrap().median_ns, 50 * MS);
    }

    #[test]
    fn calls_at_one_place_mark_turns_and_are_counted_where_few_are_recorded() {
        // Three synchronisations in each turn of 5 ms, at three places; of each half second the first eight turns are recorded.
        let mut all = activity(Vec::new(), &[1]);
        for window in 0..2 {
            for turn in 0..8 {
                for place in 0..3 {
                    let time_ns = (window * 500 + turn * 5 + place) * MS + 1;
                    for key in [0, place + 1] {
                        let kind = BeatKind::Synchronisation;
                        all.beats.push(Beat { pid: 1, kind, key, counted_as: 0, time_ns });
                    }
                }
            }
            let count = BeatCount { window_start_ns: window * 500 * MS, count: 300 };
            all.beat_counts.entry((1, BeatKind::Synchronisation, 0)).or_default().push(count);
        }
        let found = period(&all, 1, SECOND).unwrap();
        assert_eq!((found.kind, found.median_ns), (BeatKind::Synchronisation, 5 * MS));
        let Some(CountedBy::Rate(rate)) = found.counted_by else { panic!("{found:?}") };
        assert!((rate.per_second - 200.0).abs() < 1.0, "{rate:?}");
    }

    #[test]
    fn calls_before_the_loop_do_not_make_its_steps_longer() {
        // A synchronisation every 2 ms, 5 of each half second recorded, behind a start in which as many are made elsewhere.
        let mut all = activity(Vec::new(), &[1]);
        let kind = BeatKind::Synchronisation;
        let mut push = |key, time_ns| {
            for key in [0, key] {
                all.beats.push(Beat { pid: 1, kind, key, counted_as: 0, time_ns });
            }
        };
        (0..20).for_each(|call| push(1, call * 10 * MS));
        for window in 2..8 {
            (0..5).for_each(|turn| push(2, window * 500 * MS + turn * 2 * MS + 1));
        }
        for window in 0..8 {
            let count = if window < 2 { 10 } else { 250 };
            let counted = BeatCount { window_start_ns: window * 500 * MS, count };
            all.beat_counts.entry((1, kind, 0)).or_default().push(counted);
        }
        let found = period(&all, 1, Span { start_ns: 0, end_ns: 4_000 * MS }).unwrap();
        let Some(CountedBy::Rate(rate)) = found.counted_by else { panic!("{found:?}") };
        assert_eq!((found.median_ns, rate.per_second.round() as u64), (2 * MS, 500));
    }

    #[test]
    fn steps_that_get_faster_when_they_are_no_longer_recorded_are_counted_all_the_same() {
        // 4 ms each in the first second, of which the first 16 of each half second are recorded; then 1 ms.
        let mut all = activity(Vec::new(), &[1]);
        let (pid, kind, key) = (1, BeatKind::Synchronisation, 0);
        for window in 0..2 {
            let times = (0..16).map(|turn| window * 500 * MS + turn * 4 * MS + 1);
            all.beats.extend(times.map(|time_ns| Beat { pid, kind, key, counted_as: key, time_ns }));
        }
        let count = |window| if window < 2 { 125 } else { 500 };
        let counts =
            (0..8).map(|window| BeatCount { window_start_ns: window * 500 * MS, count: count(window) });
        all.beat_counts.insert((pid, kind, key), counts.collect());
        let found = period(&all, 1, Span { start_ns: 0, end_ns: 4_000 * MS }).unwrap();
        let Some(CountedBy::Rate(rate)) = found.counted_by else { panic!("{found:?}") };
        assert!((rate.per_second - 812.5).abs() < 0.1 && found.median_ns < 2 * MS, "{found:?}");
    }

    #[test]
    fn graph_launches_that_are_only_counted_tell_how_many_steps_there_are() {
        let kind = BeatKind::GraphLaunch;
        let launches = |graphs: &[(u64, u64)]| {
            let mut all = activity(Vec::new(), &[1]);
            for (graph, recorded) in graphs {
                // Recorded at random moments.
                for n in 0..*recorded {
                    let time_ns = (n * n * 37 + graph * 91) % 1000 * MS;
                    for key in [7, 7 + graph] {
                        all.beats.push(Beat { pid: 1, kind, key, counted_as: 7, time_ns });
                    }
                }
            }
            for window in 0..2 {
                let count = BeatCount { window_start_ns: window * 500 * MS, count: 150 };
                all.beat_counts.entry((1, kind, 7)).or_default().push(count);
            }
            period(&all, 1, SECOND).unwrap()
        };
        let one = launches(&[(1, 20)]);
        assert_eq!((one.counted_by, one.median_ns), (Some(CountedBy::Total(300)), SECOND.ns() / 300));
        // Two graphs in each step; one of two graphs, by the size of the batch.
        assert_eq!(launches(&[(1, 20), (2, 18)]).counted_by, Some(CountedBy::Total(150)));
        assert_eq!(launches(&[(1, 20), (2, 5)]).counted_by, Some(CountedBy::Total(300)));
    }

    #[test]
    fn a_synchronisation_for_a_line_of_a_log_is_no_step() {
        let mut all = activity(Vec::new(), &[1]);
        let kind = BeatKind::Synchronisation;
        let mut push = |key, time_ns| all.beats.push(Beat { pid: 1, kind, key, counted_as: key, time_ns });
        (0..100).for_each(|step| push(1, step * 10 * MS));
        (0..10).for_each(|line| push(2, line * 100 * MS));
        assert_eq!(period(&all, 1, SECOND).unwrap().median_ns, 10 * MS);
    }

    #[test]
    fn threads_that_make_no_calls_mark_nothing() {
        let waits = (0..40).map(|turn| wait(9, (turn * 25 + 20) * MS, Reason::Sleep, 0)).collect();
        assert!(period(&activity(waits, &[1]), 1, SECOND).is_none());
    }
}
