//! Start, loop and end of a process: importing, loading and warming up are no part of what repeats.

use super::period::Period;
use gpuwhy_model::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) start: Option<Span>,
    pub(crate) repeats: Span,
    pub(crate) end: Option<Span>,
}

/// What is known of a process's life.
#[derive(Debug, Clone)]
pub(crate) struct Life<'a> {
    /// As far as it was traced.
    pub(crate) traced: Span,
    /// Of its GPU calls.
    pub(crate) calls: Span,
    /// It began before the trace did.
    pub(crate) began_before: bool,
    pub(crate) period: Option<&'a Period>,
    /// When something was loaded, compiled or launched for the first time, in order.
    pub(crate) cold: &'a [u64],
}

/// So many regular turns in a row are the loop; a warm-up has turns of its own, far longer ones.
const STEADY_TURNS: usize = 3;
/// Within so many medians.
const STEADY: u64 = 4;
/// Turns of the loop differ from its median by less than this, as percent of it: a warm-up repeats as regularly, but without
/// what the loop does between its steps.
const ALIKE_PCT: std::ops::RangeInclusive<u64> = 70..=150;
/// A loop is alike from here on at the latest, as a share of its turns; else its turns are of several kinds.
const ALIKE_BY: f64 = 0.3;
/// What happens so shortly before the end of a process comes of it.
const AT_THE_END_NS: u64 = 5_000_000;
/// Cold starts that follow each other within this are one start.
const COLD_GAP_NS: u64 = 1_000_000_000;
/// A start that takes more than this share of the calls' time is no start: a loop that compiles again and again.
const MAX_START_SHARE: f64 = 0.6;

pub(crate) fn phases(life: &Life<'_>) -> Phases {
    let (begin, finish) = match life.period.filter(|period| !period.is_count_only()) {
        Some(period) => steady(life, period),
        None => (after_cold_starts(life), life.calls.end_ns),
    };
    // A trace that begins in the middle of a loop has no start.
    let turn = life.period.map_or(COLD_GAP_NS, |period| period.median_ns);
    let begin = match life.began_before && begin <= life.traced.start_ns + 2 * turn + COLD_GAP_NS {
        true => life.traced.start_ns,
        false => begin.clamp(life.traced.start_ns, life.traced.end_ns),
    };
    let finish = finish.clamp(begin, life.traced.end_ns);
    let span = |start_ns, end_ns| (end_ns > start_ns).then_some(Span { start_ns, end_ns });
    Phases {
        start: span(life.traced.start_ns, begin),
        repeats: Span { start_ns: begin, end_ns: finish },
        end: span(finish, life.traced.end_ns),
    }
}

/// From the first of some regular turns on.
fn steady(life: &Life<'_>, period: &Period) -> (u64, u64) {
    let times = &period.times;
    let is_regular = |pair: &[u64]| pair[1] - pair[0] <= period.median_ns * STEADY;
    let is_alike = |pair: &[u64]| ALIKE_PCT.contains(&(100 * (pair[1] - pair[0]) / period.median_ns.max(1)));
    let first_of = |is_one: &dyn Fn(&[u64]) -> bool| {
        let is_steady = |at: &usize| times[*at..=at + STEADY_TURNS].windows(2).all(is_one);
        (0..times.len().saturating_sub(STEADY_TURNS)).find(is_steady)
    };
    let early = |at: &usize| (*at as f64) < times.len() as f64 * ALIKE_BY;
    let first = first_of(&is_alike).filter(early).or_else(|| first_of(&is_regular)).unwrap_or(0);
    // A thread that waits for the next turn is woken once more when the process ends.
    let is_woken_by_end = times
        .windows(2)
        .next_back()
        .is_some_and(|pair| !is_regular(pair) && pair[1] + AT_THE_END_NS >= life.traced.end_ns);
    let last = times.iter().rev().nth(usize::from(is_woken_by_end)).copied().unwrap_or(0);
    // Where probes were detached, or a half second has more turns than are recorded, the loop goes on behind the last of them.
    (times.get(first).copied().unwrap_or(0), last.max(period.counted_until_ns))
}

fn after_cold_starts(life: &Life<'_>) -> u64 {
    let mut until = life.calls.start_ns;
    for time in life.cold.iter().filter(|time| **time >= life.calls.start_ns) {
        if *time > until + COLD_GAP_NS {
            break;
        }
        until = *time;
    }
    let share = (until - life.calls.start_ns) as f64 / life.calls.ns().max(1) as f64;
    if share > MAX_START_SHARE { life.calls.start_ns } else { until }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::BeatKind;

    const MS: u64 = 1_000_000;

    fn life<'a>(period: Option<&'a Period>, cold: &'a [u64], began_before: bool) -> Life<'a> {
        let span = |start, end| Span { start_ns: start * MS, end_ns: end * MS };
        Life { traced: span(0, 10_000), calls: span(4_000, 9_500), began_before, period, cold }
    }

    fn period(times: impl Iterator<Item = u64>) -> Period {
        Period {
            kind: BeatKind::HandOver,
            times: times.map(|ms| ms * MS).collect(),
            median_ns: 10 * MS,
            counted_by: None,
            counted_until_ns: 0,
        }
    }

    #[test]
    fn a_warm_up_is_start_and_a_stall_is_loop() {
        // Two long turns to warm up; later one turn of two seconds.
        let turns = (0..50).map(|n| 5_000 + 10 * n).chain((0..200).map(|n| 7_490 + 10 * n));
        let period = period([4_100, 4_600].into_iter().chain(turns));
        let found = phases(&life(Some(&period), &[], false));
        assert_eq!(found.repeats, Span { start_ns: 5_000 * MS, end_ns: 9_480 * MS });
        assert_eq!(found.start.unwrap().end_ns, 5_000 * MS);
        assert_eq!(found.end.unwrap().start_ns, 9_480 * MS);
    }

    #[test]
    fn warm_up_steps_without_what_the_loop_does_between_its_steps_are_start() {
        let warm = (0..10).map(|n| 4_000 + 4 * n);
        let period = period(warm.chain((0..200).map(|n| 4_040 + 10 * n)));
        let found = phases(&life(Some(&period), &[], false));
        assert_eq!(found.repeats.start_ns, 4_040 * MS);
    }

    #[test]
    fn turns_of_several_kinds_are_loop_from_the_first() {
        // Every third one takes three times as long.
        let mut now = 4_000;
        let turns = (0..300).map(|n| {
            now += if n % 3 == 0 { 30 } else { 10 };
            now
        });
        let period = period(turns);
        assert_eq!(phases(&life(Some(&period), &[], false)).repeats.start_ns, 4_030 * MS);
    }

    #[test]
    fn without_a_period_the_cold_starts_tell() {
        let cold: Vec<u64> = [4_000, 4_200, 4_900, 8_000].map(|ms| ms * MS).into();
        assert_eq!(phases(&life(None, &cold, false)).repeats.start_ns, 4_900 * MS);
        let storm: Vec<u64> = (0..50).map(|n| (4_000 + 100 * n) * MS).collect();
        assert_eq!(phases(&life(None, &storm, false)).repeats.start_ns, 4_000 * MS);
    }

    #[test]
    fn what_follows_the_last_turn_is_no_turn_though_a_waiting_thread_is_woken_at_the_end() {
        let ended_at = |last| {
            let period = period((0..400).map(|n| 4_100 + 10 * n).chain([last]));
            phases(&life(Some(&period), &[], false)).repeats.end_ns
        };
        assert_eq!(ended_at(9_998), 8_090 * MS);
        // A turn that took long is one, if something follows it.
        assert_eq!(ended_at(9_700), 9_700 * MS);
    }

    #[test]
    fn a_loop_whose_turns_are_counted_but_not_recorded_any_more_goes_on() {
        let mut period = period((0..90).map(|n| 4_100 + 10 * n));
        period.counted_until_ns = 9_000 * MS;
        assert_eq!(phases(&life(Some(&period), &[], false)).repeats.end_ns, 9_000 * MS);
    }

    #[test]
    fn a_trace_that_begins_late_has_no_start() {
        let period = period((0..900).map(|n| 15 + 10 * n));
        let found = phases(&life(Some(&period), &[], true));
        assert_eq!((found.start, found.repeats.start_ns), (None, 0));
    }
}
