//! How much the clocks of files differ, told by collectives: nobody is done with one before everybody has begun it. So
//! each collective that two nodes took part in bounds the difference from both sides, whatever the network or the host
//! did meanwhile; and where both waited for its end, they were told at about the same moment.

use super::MergeError;
use crate::Reader;
use serde::Serialize;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockSource {
    /// The clock the others were aligned to.
    Reference,
    Collectives,
    /// What each node said its time is, when its trace was fetched.
    Measured,
    /// Nothing tells: times are as they were.
    None,
}

impl ClockSource {
    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Reference => "reference",
            ClockSource::Collectives => "collectives",
            ClockSource::Measured => "measured",
            ClockSource::None => "none",
        }
    }
}

/// How clocks are aligned.
#[derive(Debug, Clone, Copy)]
pub enum Clocks<'a> {
    /// They stay as they are.
    Keep,
    /// By the collectives that nodes took part in together.
    Collectives,
    /// By collectives, and where there are none, by what was measured of each file's clock, in the order of the files.
    Measured(&'a [Offset]),
}

/// How far a clock is ahead of one that all were compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Offset {
    pub ahead_ns: i64,
    /// By how much that may be wrong at most.
    pub error_ns: i64,
}

/// What is done to the times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// To be added.
    pub shift_ns: i64,
    /// By how much that may be wrong at most; nothing where it is not known.
    pub error_ns: Option<i64>,
    pub source: ClockSource,
    /// How many collectives tell.
    pub collectives: u64,
}

impl Clock {
    /// Nothing tells.
    pub const UNKNOWN: Clock =
        Clock { shift_ns: 0, error_ns: None, source: ClockSource::None, collectives: 0 };
    /// The one that others are aligned to.
    pub const REFERENCE: Clock =
        Clock { shift_ns: 0, error_ns: Some(0), source: ClockSource::Reference, collectives: 0 };
}

/// What a file saw of one collective: when the last of its ranks began it, when the first was told that it is done,
/// and whether that one had waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    begun_ns: i64,
    done_ns: i64,
    waited: bool,
}

type Collectives = HashMap<(String, i64), Seen>;

/// The first file keeps its clock; each other one is aligned to the one, of those aligned before it, that tells most
/// exactly. What nothing leads to keeps its clock, too.
pub(super) fn align(readers: &[Reader], measured: &[Offset]) -> Result<Vec<Clock>, MergeError> {
    let seen: Vec<Collectives> = readers.iter().map(collectives).collect::<Result<_, _>>()?;
    let mut clocks = vec![Clock::UNKNOWN; readers.len()];
    let mut aligned = vec![false; readers.len()];
    if let (Some(clock), Some(first)) = (clocks.first_mut(), aligned.first_mut()) {
        (*clock, *first) = (Clock::REFERENCE, true);
    }
    // Collectives first: they bound what they tell. What was measured leads to those that none leads to.
    let reported: [&dyn Fn(usize, usize) -> Option<Clock>; 2] =
        [&|to, of| difference(seen.get(to)?, seen.get(of)?), &|to, of| {
            Some(between(*measured.get(to)?, *measured.get(of)?))
        }];
    while let Some((of, clock)) = reported.iter().find_map(|reported| nearest(&clocks, &aligned, *reported)) {
        (clocks[of], aligned[of]) = (clock, true);
    }
    Ok(clocks)
}

/// Of those that are not aligned the one that is told most exactly, and its clock.
fn nearest(
    clocks: &[Clock],
    aligned: &[bool],
    reported: &dyn Fn(usize, usize) -> Option<Clock>,
) -> Option<(usize, Clock)> {
    let mut best: Option<(usize, Clock)> = None;
    for to in (0..clocks.len()).filter(|at| aligned[*at]) {
        for of in (0..clocks.len()).filter(|at| !aligned[*at]) {
            let Some(offset) = reported(to, of) else { continue };
            let clock = Clock {
                shift_ns: offset.shift_ns.saturating_add(clocks[to].shift_ns),
                error_ns: offset.error_ns.zip(clocks[to].error_ns).map(|(a, b)| a.saturating_add(b)),
                ..offset
            };
            let error = |clock: &Clock| clock.error_ns.unwrap_or(i64::MAX);
            if best.is_none_or(|(_, best)| error(&clock) < error(&best)) {
                best = Some((of, clock));
            }
        }
    }
    best
}

/// What to add to the times of `of` so that they are those of `to`. A difference that may be none at all is left: two clocks
/// that are kept right agree better than a network can tell.
fn between(to: Offset, of: Offset) -> Clock {
    let shift = to.ahead_ns.saturating_sub(of.ahead_ns);
    let error = to.error_ns.saturating_add(of.error_ns);
    let (shift_ns, error_ns) = match shift.saturating_abs() > error {
        true => (shift, error),
        false => (0, shift.saturating_abs().saturating_add(error)),
    };
    Clock { shift_ns, error_ns: Some(error_ns), source: ClockSource::Measured, collectives: 0 }
}

/// Those whose end nobody reaches before all have begun.
fn collectives(reader: &Reader) -> Result<Collectives, MergeError> {
    let sql = "SELECT comm_id_hash, seq, max(timestamp_ns), min(completed_ns), \
               min(CASE WHEN wait_ns > 0 THEN completed_ns END) FROM nccl_events \
               WHERE comm_id_hash IS NOT NULL AND seq IS NOT NULL AND completed_ns IS NOT NULL \
               AND op IN ('ALL_REDUCE', 'ALL_GATHER', 'REDUCE_SCATTER', 'ALL_TO_ALL', 'BARRIER') GROUP BY comm_id_hash, seq";
    let mut seen = Collectives::new();
    reader.stream::<MergeError>(sql, &[], |record| {
        if let (Some(comm), Some(seq), Some(begun_ns), Some(done_ns)) =
            (record.text(0), record.integer(1), record.integer(2), record.integer(3))
        {
            let waited = record.integer(4) == Some(done_ns);
            seen.insert((comm.into_owned(), seq), Seen { begun_ns, done_ns, waited });
        }
        Ok(())
    })?;
    Ok(seen)
}

/// What to add to the times of `of` so that they are those of `to`; nothing without a collective of both.
fn difference(to: &Collectives, of: &Collectives) -> Option<Clock> {
    let (few, many) = if to.len() < of.len() { (to, of) } else { (of, to) };
    let shared: Vec<(Seen, Seen)> = few
        .keys()
        .filter(|key| many.contains_key(*key))
        .filter_map(|key| Some((*to.get(key)?, *of.get(key)?)))
        .collect();
    let least = shared.iter().map(|(to, of)| to.begun_ns.saturating_sub(of.done_ns)).max()?;
    let most = shared.iter().map(|(to, of)| to.done_ns.saturating_sub(of.begun_ns)).min()?;
    // Both waited for the end: they were told of it together. Where nobody waited, the middle of the bounds is as good.
    let mut ends: Vec<i64> = shared
        .iter()
        .filter(|(to, of)| to.waited && of.waited)
        .map(|(to, of)| to.done_ns.saturating_sub(of.done_ns))
        .collect();
    ends.sort_unstable();
    let likely = ends.get(ends.len() / 2).copied();
    let clock = |shift_ns: i64, error_ns: Option<i64>| Clock {
        shift_ns,
        error_ns,
        source: ClockSource::Collectives,
        collectives: shared.len() as u64,
    };
    if least <= most {
        let shift = likely.unwrap_or(middle(least, most)).clamp(least, most);
        return Some(clock(shift, Some(apart(most, shift).max(apart(shift, least)))));
    }
    // The clocks moved against each other while the trace was taken, so no one shift is right: the middle, and as error
    // how far the ends lie from it.
    let shift = likely.unwrap_or(middle(most, least));
    let spread = ends.iter().map(|end| apart(*end, shift)).max().unwrap_or(0);
    Some(clock(shift, Some(spread.max(apart(least, shift)).max(apart(shift, most)))))
}

// Times come from files, which may say anything.
fn middle(low: i64, high: i64) -> i64 {
    low.saturating_add(high.saturating_sub(low) / 2)
}

fn apart(a: i64, b: i64) -> i64 {
    a.saturating_sub(b).saturating_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rows: &[(i64, i64, i64, bool)]) -> Collectives {
        rows.iter()
            .map(|(seq, begun_ns, done_ns, waited)| {
                (("0x1".into(), *seq), Seen { begun_ns: *begun_ns, done_ns: *done_ns, waited: *waited })
            })
            .collect()
    }

    #[test]
    fn the_shift_lies_between_bounds_that_no_host_can_break() {
        // The other clock is 1000 ahead; ends are told 3 and 40 later than to the first.
        let to = seen(&[(1, 100, 200, true), (2, 300, 420, true)]);
        let of = seen(&[(1, 1150, 1203, true), (2, 1310, 1460, true)]);
        let clock = difference(&to, &of).unwrap();
        assert_eq!((clock.source, clock.collectives), (ClockSource::Collectives, 2));
        let error = clock.error_ns.unwrap();
        assert!((clock.shift_ns + 1000).abs() <= error, "{clock:?}");
        assert!(error <= 110, "{clock:?}");
    }

    #[test]
    fn without_a_wait_the_bounds_alone_tell() {
        let to = seen(&[(1, 100, 200, false)]);
        let of = seen(&[(1, 600, 700, false)]);
        let clock = difference(&to, &of).unwrap();
        assert_eq!((clock.shift_ns, clock.error_ns), (-500, Some(100)));
    }

    #[test]
    fn nothing_in_common_tells_nothing() {
        assert_eq!(difference(&seen(&[(1, 1, 2, true)]), &seen(&[(2, 1, 2, true)])), None);
    }

    #[test]
    fn what_was_measured_is_applied_where_it_is_more_than_its_error() {
        let offset = |ahead_ns, error_ns| Offset { ahead_ns, error_ns };
        let apart = between(offset(40, 10), offset(1_500, 20));
        assert_eq!((apart.shift_ns, apart.error_ns, apart.source), (-1_460, Some(30), ClockSource::Measured));
        let same = between(offset(40, 10), offset(20, 20));
        assert_eq!((same.shift_ns, same.error_ns), (0, Some(50)), "the truth lies within");
        let absurd = between(offset(i64::MIN, i64::MAX), offset(i64::MAX, i64::MAX));
        assert_eq!((absurd.shift_ns, absurd.error_ns), (0, Some(i64::MAX)));
    }

    #[test]
    fn clocks_that_drift_have_an_error_that_covers_it() {
        let to = seen(&[(1, 0, 10, true), (2, 1_000_000, 1_000_010, true)]);
        let of = seen(&[(1, 500, 510, true), (2, 1_000_900, 1_000_910, true)]);
        let clock = difference(&to, &of).unwrap();
        for truth in [-500, -900] {
            assert!((clock.shift_ns - truth).abs() <= clock.error_ns.unwrap(), "{clock:?}");
        }
    }
}
