//! Calls that were watched in slices of time: what is told of them is scaled, with an interval. A slice is exact; what was
//! not watched between slices is taken to be as in the slices next to it, and how much slices differ tells how far that
//! can be wrong.

use crate::{Family, OpInfo, Role, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls that may be so frequent that they are watched in slices, together: a runtime call and the driver call nested in
/// it are of one class, so that they are watched at the same times and count once. The order is that in which they are
/// given up: what tells least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    Launches,
    Events,
    Memsets,
    KernelLookups,
    Copies,
    Synchronisations,
}

impl CallClass {
    pub const ALL: [CallClass; 6] = [
        CallClass::Launches,
        CallClass::Events,
        CallClass::Memsets,
        CallClass::KernelLookups,
        CallClass::Copies,
        CallClass::Synchronisations,
    ];

    /// Nothing for calls that are always watched.
    pub fn of(family: Family, role: Role) -> Option<CallClass> {
        match (family, role) {
            (Family::Launch, Role::Launch) => Some(CallClass::Launches),
            (Family::Event, _) => Some(CallClass::Events),
            (Family::Set, _) => Some(CallClass::Memsets),
            (_, Role::KernelFunction) => Some(CallClass::KernelLookups),
            (Family::Copy, _) => Some(CallClass::Copies),
            (Family::Sync, _) => Some(CallClass::Synchronisations),
            _ => None,
        }
    }

    pub fn of_op(op: &OpInfo) -> Option<CallClass> {
        CallClass::of(op.family, op.role)
    }

    /// Its number in the kernel; 0 is for calls that are always watched.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    pub fn of_number(number: u32) -> Option<CallClass> {
        CallClass::ALL.get((number as usize).checked_sub(1)?).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            CallClass::Launches => "launches",
            CallClass::Events => "events",
            CallClass::Memsets => "memsets",
            CallClass::KernelLookups => "kernel lookups",
            CallClass::Copies => "copies",
            CallClass::Synchronisations => "synchronisations",
        }
    }

    pub fn of_name(name: &str) -> Option<CallClass> {
        CallClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Rare and telling: given up only where nothing else keeps the cost within its budget.
    pub fn is_last_resort(self) -> bool {
        matches!(self, CallClass::Copies | CallClass::Synchronisations)
    }
}

/// A time in which the calls of a class were watched. Classes that were watched all the time have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub class: CallClass,
    pub span: Span,
    /// Nothing for all processes; else what is told here of this one.
    pub pid: Option<u32>,
    /// By how much being watched slowed that process down meanwhile: it did what it does in less time otherwise.
    pub slowed_ns: u64,
}

/// A number that was scaled, with the interval that holds it in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Share of the time in which the calls were watched.
    pub watched_pct: f64,
}

impl Estimate {
    /// A count that needed no scaling.
    pub fn exact(count: u64) -> Estimate {
        let value = count as f64;
        Estimate { value, low: value, high: value, watched_pct: 100.0 }
    }

    /// Of both together: they are wrong independently of each other.
    pub fn plus(&self, other: &Estimate) -> Estimate {
        let value = self.value + other.value;
        let half = |a: f64, b: f64| a.hypot(b);
        Estimate {
            value,
            low: value - half(self.value - self.low, other.value - other.low),
            high: value + half(self.high - self.value, other.high - other.value),
            watched_pct: self.watched_pct.min(other.watched_pct),
        }
    }
}

/// Longer periods were watched in full: their ends say little of what comes after.
const MAX_SLICE_NS: u64 = 250_000_000;
/// Where there is nothing else the last second of such a period tells, in halves.
const LAST_NS: u64 = 1_000_000_000;
/// Shorter ones ended because a burst of calls cost too much: they say more of the burst than of the time around it.
const MIN_SLICE_NS: u64 = 20_000_000;
/// What a process was slowed down by is known to about so much of it.
const SLOWED_ERROR: f64 = 0.3;
/// Slices that agree to the last call do not tell what all of them miss at their edges.
const EDGE_ERROR: f64 = 0.01;
/// Beyond this share of what is told nothing is told.
const MAX_SLOWED: f64 = 0.5;
/// Slices to both sides that a time between them is taken to be like.
const NEIGHBOURS: usize = 2;

/// When the calls of a class of a process were watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watched {
    /// By time; they do not overlap.
    periods: Vec<Period>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Period {
    span: Span,
    slowed_ns: u64,
}

impl Watched {
    /// Nothing where they were watched all the time.
    pub fn new(slices: &[Slice], class: CallClass, pid: u32) -> Option<Watched> {
        let of_class = || slices.iter().filter(|slice| slice.class == class);
        let mut periods: Vec<Period> = of_class()
            .filter(|slice| slice.pid.is_none())
            .map(|slice| {
                // It comes in parts where the slice is in two windows.
                let same = |own: &&Slice| own.pid == Some(pid) && own.span.start_ns == slice.span.start_ns;
                let slowed_ns: u64 = of_class().filter(same).map(|own| own.slowed_ns).sum();
                Period { span: slice.span, slowed_ns: slowed_ns.min(slice.span.ns() * 9 / 10) }
            })
            .collect();
        periods.sort_by_key(|period| period.span.start_ns);
        periods.dedup_by_key(|period| period.span.start_ns);
        (!periods.is_empty()).then_some(Watched { periods })
    }

    /// How much of a time was watched.
    pub fn ns_within(&self, within: Span) -> u64 {
        self.periods.iter().map(|period| overlap(period.span, within).map_or(0, |span| span.ns())).sum()
    }

    pub fn pct_within(&self, within: Span) -> f64 {
        100.0 * self.ns_within(within) as f64 / within.ns().max(1) as f64
    }

    /// What a process did `within` a time, from what was `counted` of it, by when: each in one of the periods. Nothing
    /// where too little was watched to tell.
    pub fn estimate(&self, within: Span, counted: &[(u64, f64)]) -> Option<Estimate> {
        let exact: f64 =
            counted.iter().filter(|(time, _)| contains(within, *time)).map(|(_, value)| value).sum();
        let watched_pct = self.pct_within(within);
        let gaps = self.gaps(within);
        let Some(unwatched_ns) = Some(gaps.iter().map(Span::ns).sum::<u64>()).filter(|ns| *ns > 0) else {
            return Some(Estimate { value: exact, low: exact, high: exact, watched_pct });
        };
        let rates = self.rates(counted);
        // A process that does little else than being watched says nothing of what it does otherwise.
        let slowed = rates.iter().map(|rate| rate.slowed_per_ns).sum::<f64>();
        if rates.len() < 2 || slowed > MAX_SLOWED * rates.iter().map(|rate| rate.per_ns).sum::<f64>() {
            return None;
        }
        let mut stands_for = vec![0.0; rates.len()];
        for gap in &gaps {
            let near = neighbours(&rates, *gap);
            for place in &near {
                stands_for[*place] += gap.ns() as f64 / near.len() as f64;
            }
        }
        let weighted = |of: &dyn Fn(&Rate) -> f64| -> f64 {
            rates.iter().zip(&stands_for).map(|(rate, ns)| of(rate) * ns).sum()
        };
        let unwatched = weighted(&|rate| rate.per_ns);
        // Successive slices differ by chance; slices far from each other because the program changes.
        let pairs = rates.windows(2).map(|pair| (pair[0].per_ns - pair[1].per_ns).powi(2) / 2.0);
        let variance = pairs.sum::<f64>() / (rates.len() - 1) as f64;
        let mean_ns = rates.iter().map(|rate| rate.ns).sum::<f64>() / rates.len() as f64;
        let squares: f64 = stands_for.iter().map(|ns| ns * ns).sum();
        let error = (variance * (squares + mean_ns * unwatched_ns as f64)).sqrt();
        let slowed_error = SLOWED_ERROR * weighted(&|rate| rate.slowed_per_ns);
        let half = student(rates.len() - 1) * error + slowed_error + EDGE_ERROR * unwatched;
        let value = exact + unwatched;
        Some(Estimate { value, low: (value - half).max(exact), high: value + half, watched_pct })
    }

    /// What of a time was not watched.
    fn gaps(&self, within: Span) -> Vec<Span> {
        let mut gaps = Vec::new();
        let mut from = within.start_ns;
        for period in &self.periods {
            let Some(watched) = overlap(period.span, within) else { continue };
            if watched.start_ns > from {
                gaps.push(Span { start_ns: from, end_ns: watched.start_ns });
            }
            from = from.max(watched.end_ns);
        }
        if within.end_ns > from {
            gaps.push(Span { start_ns: from, end_ns: within.end_ns });
        }
        gaps
    }

    /// Of the slices; where there are too few, of the ends of what was watched in full.
    fn rates(&self, counted: &[(u64, f64)]) -> Vec<Rate> {
        let in_span = |span: Span| {
            counted.iter().filter(|(time, _)| contains(span, *time)).map(|(_, value)| value).sum::<f64>()
        };
        let rate = |period: &Period| {
            let (whole, own) = (period.span.ns() as f64, (period.span.ns() - period.slowed_ns) as f64);
            let calls = in_span(period.span);
            Rate {
                middle_ns: period.span.start_ns + period.span.ns() / 2,
                ns: whole,
                per_ns: calls / own,
                slowed_per_ns: calls / own - calls / whole,
            }
        };
        let (slices, long): (Vec<&Period>, Vec<&Period>) = self
            .periods
            .iter()
            .filter(|p| p.span.ns() >= MIN_SLICE_NS)
            .partition(|p| p.span.ns() <= MAX_SLICE_NS);
        let mut rates: Vec<Rate> = slices.into_iter().map(rate).collect();
        if rates.len() < 2 {
            for period in long.into_iter().filter(|period| period.span.ns() >= LAST_NS) {
                let end_ns = period.span.end_ns;
                let parts = [end_ns - LAST_NS, end_ns - LAST_NS / 2];
                rates.extend(parts.map(|start_ns| {
                    let span = Span { start_ns, end_ns: start_ns + LAST_NS / 2 };
                    rate(&Period { span, slowed_ns: 0 })
                }));
            }
            rates.sort_by_key(|rate| rate.middle_ns);
        }
        rates
    }
}

/// Of a slice.
#[derive(Debug, Clone, Copy)]
struct Rate {
    middle_ns: u64,
    ns: f64,
    per_ns: f64,
    /// How much of it is there because the process was slowed down.
    slowed_per_ns: f64,
}

/// The slice before and the one after; where one is missing, two of the other side.
fn neighbours(rates: &[Rate], gap: Span) -> Vec<usize> {
    let next = rates.partition_point(|rate| rate.middle_ns < gap.start_ns + gap.ns() / 2);
    match next {
        0 => (0..rates.len().min(NEIGHBOURS)).collect(),
        _ if next == rates.len() => (rates.len().saturating_sub(NEIGHBOURS)..rates.len()).collect(),
        _ => vec![next - 1, next],
    }
}

fn contains(span: Span, time_ns: u64) -> bool {
    (span.start_ns..span.end_ns).contains(&time_ns)
}

fn overlap(a: Span, b: Span) -> Option<Span> {
    let span = Span { start_ns: a.start_ns.max(b.start_ns), end_ns: a.end_ns.min(b.end_ns) };
    (span.start_ns < span.end_ns).then_some(span)
}

/// Student's t for 95% of both sides.
fn student(degrees: usize) -> f64 {
    const FEW: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    match degrees {
        0 => f64::INFINITY,
        few if few <= FEW.len() => FEW[few - 1],
        many => 1.96 + 2.7 / many as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn slice(start_ms: u64, ms: u64) -> Slice {
        let span = Span { start_ns: start_ms * MS, end_ns: (start_ms + ms) * MS };
        Slice { class: CallClass::Launches, span, pid: None, slowed_ns: 0 }
    }

    fn watched(slices: &[Slice]) -> Watched {
        Watched::new(slices, CallClass::Launches, 7).unwrap()
    }

    const WITHIN: Span = Span { start_ns: 0, end_ns: 10 * SECOND };

    #[test]
    fn what_is_always_watched_is_not_scaled() {
        assert_eq!(Watched::new(&[], CallClass::Launches, 7), None);
        let whole = watched(&[slice(0, 10_000)]);
        let estimate = whole.estimate(WITHIN, &[(5, 3.0), (SECOND, 4.0)]).unwrap();
        assert_eq!(
            (estimate.value, estimate.low, estimate.high, estimate.watched_pct),
            (7.0, 7.0, 7.0, 100.0)
        );
    }

    #[test]
    fn a_steady_rate_is_scaled_with_a_narrow_interval() {
        let slices: Vec<Slice> = (0..10).map(|i| slice(i * 1_000 + 37 * i, 100)).collect();
        let counted: Vec<(u64, f64)> =
            slices.iter().enumerate().map(|(i, s)| (s.span.start_ns, 100.0 + (i % 3) as f64)).collect();
        let estimate = watched(&slices).estimate(WITHIN, &counted).unwrap();
        assert!((estimate.watched_pct - 10.0).abs() < 0.1, "{estimate:?}");
        assert!((10_000.0..10_200.0).contains(&estimate.value), "{estimate:?}");
        assert!(estimate.low < 10_100.0 && estimate.high > 10_100.0, "{estimate:?}");
        assert!(estimate.high - estimate.low < 400.0, "{estimate:?}");
    }

    /// Slices are sparse where calls cost most: a mean over all slices would be of the quiet time.
    #[test]
    fn each_slice_stands_for_the_time_around_it() {
        let mut slices: Vec<Slice> = (0..20).map(|i| slice(i * 250, 100)).collect();
        slices.extend([slice(6_000, 100), slice(9_000, 100)]);
        let counted: Vec<(u64, f64)> = slices
            .iter()
            .map(|s| (s.span.start_ns, if s.span.start_ns < 5 * SECOND { 1.0 } else { 500.0 }))
            .collect();
        let estimate = watched(&slices).estimate(WITHIN, &counted).unwrap();
        assert!((22_000.0..28_000.0).contains(&estimate.value), "{estimate:?}");
        assert!(estimate.low < 25_000.0 && estimate.high > 25_000.0, "{estimate:?}");
    }

    #[test]
    fn what_was_watched_in_full_is_exact_and_does_not_dilute_the_rest() {
        let slices = [slice(0, 5_000), slice(6_000, 100), slice(7_500, 100), slice(9_000, 100)];
        let mut counted = vec![(4 * SECOND, 7.0)];
        counted.extend(slices[1..].iter().map(|s| (s.span.start_ns, 100.0)));
        let estimate = watched(&slices).estimate(WITHIN, &counted).unwrap();
        assert!((estimate.value - 5_007.0).abs() < 1.0, "{estimate:?}");
    }

    #[test]
    fn a_process_that_watching_slows_down_is_told_as_fast_as_it_is() {
        let mut slices: Vec<Slice> = (0..10).map(|i| slice(i * 1_000, 100)).collect();
        let counted: Vec<(u64, f64)> = slices.iter().map(|s| (s.span.start_ns, 80.0)).collect();
        let own: Vec<Slice> =
            slices.iter().map(|s| Slice { pid: Some(7), slowed_ns: 20 * MS, ..*s }).collect();
        slices.extend(own);
        let estimate = watched(&slices).estimate(WITHIN, &counted).unwrap();
        assert!((estimate.value - (800.0 + 9_000.0)).abs() < 1.0, "{estimate:?}");
        assert!(estimate.low < 9_300.0 && estimate.high > 10_200.0, "{estimate:?}");
        for slice in &mut slices {
            slice.slowed_ns *= 4;
        }
        assert_eq!(watched(&slices).estimate(WITHIN, &counted), None, "mostly slowed down: left out");
    }

    #[test]
    fn the_last_seconds_are_told_by_slices_next_to_them() {
        let slices: Vec<Slice> = (0..5).map(|i| slice(i * 2_000, 100)).collect();
        let counted: Vec<(u64, f64)> = slices.iter().map(|s| (s.span.start_ns, 10.0)).collect();
        let within = Span { start_ns: 9 * SECOND, end_ns: 10 * SECOND };
        let estimate = watched(&slices).estimate(within, &counted).unwrap();
        assert!((estimate.value - 100.0).abs() < 1e-6, "{estimate:?}");
        assert_eq!(watched(&slices[..1]).estimate(within, &counted), None, "one slice tells no interval");
    }

    #[test]
    fn classes_have_numbers_and_names_of_their_own() {
        for class in CallClass::ALL {
            assert_eq!(CallClass::of_number(class.number().into()), Some(class));
            assert_eq!(CallClass::of_name(class.name()), Some(class));
        }
        assert_eq!(CallClass::of_number(0), None);
    }
}
