//! Turns of a loop: how long they take, and those that take far longer than the others.

use super::parts::{Divider, Parts};
use super::period::Period;
use super::stalls::stalls;
use super::walk::Segment;
use gpuwhy_model::{Cause, Span};

#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) count: u64,
    /// Each of them is recorded.
    pub(crate) is_complete: bool,
    pub(crate) mean_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
}

/// One turn with its own path, or a stall where turns are not known.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) span: Span,
    pub(crate) parts: Parts,
}

/// A turn is an outlier from so many medians on,
const TIMES_MEDIAN: u64 = 4;
/// and so much longer than the median: less is what a busy host does.
const MIN_EXCESS_NS: u64 = 60_000_000;
/// Outliers with a path of their own.
const MAX_OUTLIERS: usize = 64;

/// The turns, and those far longer than the others, longest first. `counted`: how many there were, where they are counted
/// exactly and not each is recorded.
pub(crate) fn turns(
    period: &Period,
    span: Span,
    counted: Option<u64>,
    divider: &Divider<'_>,
    path: &[Segment],
) -> (Turns, Vec<Turn>) {
    if let Some(count) = counted.filter(|_| period.is_count_only()) {
        let mean_ns = span.ns() / count.max(1);
        let turns = Turns { count, is_complete: false, mean_ns, median_ns: mean_ns, p99_ns: mean_ns };
        return (turns, stalls(divider, path, span));
    }
    let times: Vec<u64> =
        period.times.iter().copied().filter(|time| (span.start_ns..=span.end_ns).contains(time)).collect();
    let mut lengths: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Of a thread that waits often only the first ones of each half second are recorded: what lies between is no turn.
    let counted = counted.filter(|counted| *counted * 10 > lengths.len() as u64 * 11);
    let sum: u64 = lengths.iter().sum();
    lengths.sort_unstable();
    if counted.is_some() {
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        lengths.retain(|length| *length <= median * TIMES_MEDIAN);
    }
    let quantile = |q: f64| {
        let at = ((lengths.len().saturating_sub(1)) as f64 * q).round() as usize;
        lengths.get(at).copied().unwrap_or(0)
    };
    let median_ns = quantile(0.5);
    let limit = (median_ns * TIMES_MEDIAN).max(median_ns + MIN_EXCESS_NS);
    let mut outliers: Vec<Span> = times
        .windows(2)
        .filter(|pair| pair[1] - pair[0] > limit)
        .map(|pair| Span { start_ns: pair[0], end_ns: pair[1] })
        .collect();
    outliers.sort_by_key(|span| std::cmp::Reverse(span.ns()));
    outliers.truncate(MAX_OUTLIERS);
    let turns = Turns {
        count: counted.unwrap_or(lengths.len() as u64),
        is_complete: counted.is_none(),
        mean_ns: match counted {
            // Counted over the whole span, recorded in parts of it.
            Some(counted) => span.ns() / counted.max(1),
            None => sum / lengths.len().max(1) as u64,
        },
        median_ns,
        p99_ns: quantile(0.99),
    };
    let outliers = outliers
        .into_iter()
        .map(|span| Turn { span, parts: divider.parts(path, span) })
        // A gap between recorded turns is one only if something else than launching filled it.
        .filter(|turn| counted.is_none() || is_stall(&turn.parts, turn.span.ns()));
    (turns, outliers.collect())
}

fn is_stall(parts: &Parts, whole_ns: u64) -> bool {
    let own: u64 =
        parts.iter().filter(|(key, _)| key.class != Cause::LaunchBound).map(|(_, part)| part.ns).sum();
    own * 2 >= whole_ns
}
