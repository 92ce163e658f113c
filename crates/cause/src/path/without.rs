//! What a step takes where it does not have a part: the program's own steps tell what removing the part saves, with all that
//! comes of it, such as code that runs slower after a sleep.

use super::parts::Divider;
use super::walk::{Segment, What};
use gpuwhy_model::{Cause, Span};
use std::collections::BTreeMap;

/// What a step of the loop takes less without a part, and the error of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    pub(crate) saves_ns: f64,
    pub(crate) error_ns: f64,
}

/// Steps with a part and steps without it, of which there must be so many,
const MIN_STEPS: usize = 10;
/// and such a share.
const MIN_SHARE: f64 = 0.15;
/// A step has a part if it has so much of what the mean step has of it.
const HAS: f64 = 0.2;
/// They must come in turns: a loop that got slower once did so for whatever reason.
const MIN_CHANGES: usize = 4;
/// Longer steps, in medians, are stalls of their own.
const STALL: u64 = 4;
/// The difference must be like the part itself: else steps differ by more than that.
const ALIKE: std::ops::RangeInclusive<f64> = 0.6..=1.7;

/// By class and thread, where steps with and without it are to be had. `times`: where the steps begin, in order, all of them.
pub(crate) fn differences(
    divider: &Divider<'_>,
    path: &[Segment],
    times: &[u64],
) -> BTreeMap<(Cause, u32), Difference> {
    let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if steps.len() < 2 * MIN_STEPS {
        return BTreeMap::new();
    }
    let mut sorted = steps.clone();
    sorted.sort_unstable();
    let limit = sorted[sorted.len() / 2] * STALL;
    let of_steps = parts_of_steps(divider, path, times);
    let found = of_steps.into_iter().filter_map(|(of, parts)| {
        let kept: Vec<(u64, f64)> =
            steps.iter().copied().zip(parts).filter(|(length, _)| *length <= limit).collect();
        Some((of, difference(&kept)?))
    });
    found.collect()
}

/// Steps as their length and what they have of a part.
fn difference(steps: &[(u64, f64)]) -> Option<Difference> {
    let count = steps.len() as f64;
    let mean_part = steps.iter().map(|(_, part)| part).sum::<f64>() / count;
    let has = |part: f64| part >= HAS * mean_part;
    let changes = steps.windows(2).filter(|pair| has(pair[0].1) != has(pair[1].1)).count();
    let without: Vec<f64> =
        steps.iter().filter(|(_, part)| !has(*part)).map(|(length, _)| *length as f64).collect();
    let fewest = (MIN_SHARE * count).max(MIN_STEPS as f64);
    if (without.len() as f64) < fewest || count - (without.len() as f64) < fewest || changes < MIN_CHANGES {
        return None;
    }
    let (all, all_error) = mean(&steps.iter().map(|(length, _)| *length as f64).collect::<Vec<_>>());
    let (rest, rest_error) = mean(&without);
    let saves_ns = all - rest;
    ALIKE
        .contains(&(saves_ns / mean_part))
        .then(|| Difference { saves_ns, error_ns: 1.96 * all_error.hypot(rest_error) })
}

/// And its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

/// Nanoseconds of each step, by class and thread.
fn parts_of_steps(
    divider: &Divider<'_>,
    path: &[Segment],
    times: &[u64],
) -> BTreeMap<(Cause, u32), Vec<f64>> {
    let count = times.len() - 1;
    let mut of_steps: BTreeMap<(Cause, u32), Vec<f64>> = BTreeMap::new();
    let mut add = |of: (Cause, u32), span: Span| {
        let parts = of_steps.entry(of).or_insert_with(|| vec![0.0; count]);
        let first = times.partition_point(|time| *time <= span.start_ns).saturating_sub(1);
        for (at, part) in parts.iter_mut().enumerate().skip(first) {
            if times[at] >= span.end_ns {
                break;
            }
            *part += span.end_ns.min(times[at + 1]).saturating_sub(span.start_ns.max(times[at])) as f64;
        }
    };
    for segment in path {
        match segment.what {
            What::Waiting(wait) => add((divider.class_of_wait(&wait), wait.tid), segment.span),
            What::Running => {
                let calls = divider.activity.callers.contains_key(&segment.tid);
                for sample in divider.running.on_cpu(segment.tid, segment.span.start_ns, segment.span.end_ns)
                {
                    // A sample stands for the time around it.
                    let half = sample.weight_ns / 2;
                    let span = Span { start_ns: sample.time_ns - half, end_ns: sample.time_ns + half };
                    add((divider.running.class(sample, calls), segment.tid), span);
                }
            }
        }
    }
    of_steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_part_tell_what_it_costs_with_all_that_comes_of_it() {
        // Every other step sleeps 10, and then takes 2 more for the rest.
        let steps: Vec<(u64, f64)> =
            (0..60).map(|n| if n % 2 == 0 { (22 + n % 3, 10.0) } else { (10 + n % 3, 0.0) }).collect();
        let found = difference(&steps).unwrap();
        assert!((found.saves_ns - 6.0).abs() < 0.2 && found.error_ns > 0.0, "{found:?}");
    }

    #[test]
    fn where_all_steps_have_it_or_it_came_once_nothing_is_known() {
        assert_eq!(difference(&[(20, 10.0); 60]), None);
        let once: Vec<(u64, f64)> = (0..60).map(|n| if n < 30 { (10, 0.0) } else { (20, 10.0) }).collect();
        assert_eq!(difference(&once), None);
    }

    #[test]
    fn steps_that_differ_by_far_more_than_the_part_say_nothing_of_it() {
        let steps: Vec<(u64, f64)> =
            (0..60).map(|n| if n % 2 == 0 { (100, 10.0) } else { (10, 0.0) }).collect();
        assert_eq!(difference(&steps), None);
    }
}
