//! How sure it is that a rank is slow. Its differences from its peers, the newest first, are weighed over the last four, six,
//! nine and so on: large differences tell at once, small ones after a while.
//!
//! Noise is taken to be of Laplace's kind, with tails as heavy as those of real hosts: an observation `d` then speaks for a
//! rank being late by `c` with `(|d| - |d - c|) / b`, which no single observation can make large. Sums of it are logarithms
//! of a likelihood ratio: equal ranks reach a sum of `h` by chance about once in `exp(h)` observations.

use crate::robust::{MAD_TO_SIGMA, mad, median, quantile};

/// The newest must agree with the whole, else it is over.
const NEWEST: usize = 8;

/// What observations of a kind are worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// What must be reached, before the number of ranks.
    pub need: f64,
    /// Ranks differ by so much for no reason.
    pub floor: f64,
    /// What one observation counts at most.
    pub cap: f64,
    /// Less than that is not worth telling.
    pub least: f64,
    pub fewest: usize,
    pub k: f64,
    /// It comes in bursts, and peers have none of it: much of it once and a little of it later speak for a rank, too.
    pub in_bursts: bool,
}

impl Rule {
    /// Among ranks such as these.
    pub(super) fn among(self, usual: Usual) -> Rule {
        Rule { k: usual.k, least: self.least.max(usual.by_chance), ..self }
    }
}

/// By how much ranks of a group may differ for no reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    pub k: f64,
    /// A share of the time.
    pub by_chance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    pub score: f64,
    /// What has to be reached to name a rank.
    pub need: f64,
    pub excess: f64,
    pub threshold: f64,
}

impl Evidence {
    pub(super) fn names(&self) -> bool {
        self.score >= self.need && self.excess >= self.threshold
    }

    /// Enough for a rank that is named already.
    pub(super) fn holds(&self) -> bool {
        self.score >= self.need / 2.0 && self.excess >= self.threshold / 2.0
    }

    pub(super) fn strength(&self) -> f64 {
        self.score / self.need
    }
}

/// Of each rank, what speaks most for its being slow, where it is enough to keep a name at least. `series` are differences from
/// the peers, the newest first. Most ranks of a healthy job cost a few medians: the rest is looked at where it may matter.
pub(super) fn weigh(series: &[Vec<f64>], rule: Rule) -> Vec<Option<Evidence>> {
    let need = rule.need + (series.len().max(1) as f64).ln();
    let mut best: Vec<Option<Evidence>> = vec![None; series.len()];
    let longest = series.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths: Option<Noise> = None;
    let mut length = rule.fewest.max(1);
    while length <= longest {
        let mut between: Option<f64> = None;
        for (rank, all) in series.iter().enumerate() {
            // Half of what is worth telling still keeps a name.
            let Some(excess) = center(all, length).filter(|center| *center >= rule.least / 2.0) else {
                continue;
            };
            let reported = |late: f64, width: f64| {
                let each = move |d: &f64| ((d.abs() - (d - late).abs()) / width).clamp(-rule.cap, rule.cap);
                all[..length].iter().map(each)
            };
            let least = rule.in_bursts.then(|| all[..length].iter().copied().fold(f64::INFINITY, f64::min));
            let most = |late: f64| reported(late, rule.floor).map(|reported| reported.max(0.0)).sum::<f64>();
            if most(excess).max(least.map_or(0.0, most)) < need / 2.0 {
                continue;
            }
            let widths = widths.get_or_insert_with(|| noise(series, rule.floor));
            let lasting: f64 = reported(excess, widths.of_rank[rank]).sum();
            let at_least: f64 = least.map_or(0.0, |least| reported(least, widths.of_most).sum());
            let score = lasting.max(at_least);
            if score < need / 2.0 {
                continue;
            }
            let between = *between.get_or_insert_with(|| spread(series, length));
            let threshold = rule.least.max(rule.k * MAD_TO_SIGMA * between);
            let evidence = Evidence { score, need, excess, threshold };
            if best[rank]
                .is_none_or(|known| (evidence.names(), evidence.score) > (known.names(), known.score))
            {
                best[rank] = Some(evidence);
            }
        }
        length += (length / 2).max(1);
    }
    best
}

/// Of the newest `length`; nothing where there are fewer, or where it is over.
fn center(series: &[f64], length: usize) -> Option<f64> {
    let whole = median(&mut series.get(..length)?.to_vec())?;
    let newest = median(&mut series.get(..length.min(NEWEST))?.to_vec())?;
    (newest >= whole / 2.0 || whole <= 0.0).then_some(whole)
}

/// Of the ranks among each other, over the newest `length`.
fn spread(series: &[Vec<f64>], length: usize) -> f64 {
    let centers: Vec<f64> = series.iter().filter_map(|series| center(series, length)).collect();
    median(&mut centers.clone()).map_or(0.0, |middle| mad(&centers, middle))
}

struct Noise {
    /// What most vary by around their own level.
    of_most: f64,
    /// By rank: no less than it varies itself from one moment to the next.
    of_rank: Vec<f64>,
}

fn noise(series: &[Vec<f64>], floor: f64) -> Noise {
    /// Of Laplace's distribution, in units of its scale: the median and the ninth decile of the distance from the middle,
    /// and the median of the distance of two draws.
    const MEDIAN: f64 = std::f64::consts::LN_2;
    const NINTH: f64 = std::f64::consts::LN_10;
    const STEP: f64 = 1.146;
    let (mut own, mut tails) = (Vec::new(), Vec::new());
    for series in series {
        let Some(level) = median(&mut series.clone()) else {
            own.push(0.0);
            continue;
        };
        // Few values lie closer to their own middle than to the true one.
        let few = series.len() as f64;
        let wider = (few / (few - 1.0).max(0.5)).sqrt();
        let mut away: Vec<f64> = series.iter().map(|d| (d - level).abs() * wider).collect();
        tails.push(quantile(&mut away, 0.9).unwrap_or(0.0) / NINTH);
        let spread = median(&mut away).unwrap_or(0.0) / MEDIAN;
        // A rank that is slow for a while, and then is not, has two levels: that is not noise.
        let mut steps: Vec<f64> = series.windows(2).map(|pair| (pair[0] - pair[1]).abs()).collect();
        own.push(median(&mut steps).map_or(spread, |step| spread.min(2.0 * step / STEP)));
    }
    let middle = median(&mut own.clone()).unwrap_or(0.0);
    let tail = median(&mut tails).unwrap_or(0.0);
    let of_most = floor.max(middle).max(tail);
    Noise { of_most, of_rank: own.into_iter().map(|own| of_most.max(own)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule =
        Rule { need: 18.0, floor: 0.006, cap: 5.5, least: 0.02, fewest: 4, k: 3.0, in_bursts: false };

    /// Eight ranks with noise of about 1%, the same each time; one of them later by `by` for the newest `since`.
    fn ranks(by: f64, since: usize) -> Vec<Vec<f64>> {
        (0..8)
            .map(|rank| {
                let noise = |at: usize| ((at * 7 + rank * 13 + at * rank) % 21) as f64 / 1000.0 - 0.01;
                (0..100).map(|at| noise(at) + if rank == 3 && at < since { by } else { 0.0 }).collect()
            })
            .collect()
    }

    fn named(series: &[Vec<f64>]) -> Vec<usize> {
        named_by(series, RULE)
    }

    fn named_by(series: &[Vec<f64>], rule: Rule) -> Vec<usize> {
        let found = weigh(series, rule);
        (0..series.len()).filter(|rank| found[*rank].is_some_and(|evidence| evidence.names())).collect()
    }

    #[test]
    fn equal_ranks_are_not_named_and_a_late_one_is() {
        assert!(named(&ranks(0.0, 100)).is_empty());
        assert_eq!(named(&ranks(0.05, 8)), [3]);
        assert_eq!(named(&ranks(0.05, 100)), [3]);
        assert_eq!(named(&ranks(0.8, 4)), [3]);
    }

    #[test]
    fn one_wild_value_names_nobody() {
        let mut series = ranks(0.0, 0);
        series[5][0] = 50.0;
        series[5][1] = 50.0;
        assert!(named(&series).is_empty());
    }

    /// What segments that are lost cost from second to second.
    #[test]
    fn what_comes_in_bursts_is_believed_where_some_of_it_is_there_each_time() {
        let bursts = Rule { in_bursts: true, ..RULE };
        let with = |newest: [f64; 4]| {
            let mut series = vec![vec![0.0; 8]; 8];
            series[3][..4].copy_from_slice(&newest);
            series
        };
        let lossy = with([0.64, 0.04, 0.45, 0.85]);
        assert_eq!(named_by(&lossy, bursts), [3]);
        assert!(named(&lossy).is_empty(), "by its middle alone it is not sure");
        assert!(named_by(&with([0.64, 0.0, 0.45, 0.85]), bursts).is_empty(), "it may be over now and then");
        assert!(named_by(&ranks(0.0, 100), bursts).is_empty());
        assert_eq!(named_by(&ranks(0.05, 100), bursts), [3]);
    }

    #[test]
    fn what_is_over_is_over() {
        let mut series = ranks(0.5, 100);
        (0..10).for_each(|at| series[3][at] = 0.0);
        let found = weigh(&series, RULE)[3];
        assert!(found.is_none_or(|evidence| !evidence.holds()), "{found:?}");
    }

    #[test]
    fn two_at_once_are_both_named() {
        let mut series = ranks(0.05, 30);
        (0..30).for_each(|at| series[6][at] += 0.8);
        assert_eq!(named(&series), [3, 6]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(weigh(&[], RULE).is_empty());
        assert_eq!(weigh(&[Vec::new(), Vec::new()], RULE), [None, None]);
    }
}
