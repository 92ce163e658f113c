//! Ranks that are slow now and then. Most of the time they are like the others, so medians do not show them; but when somebody
//! is much too late, it is the same one too often. Two things tell: among equals each is as likely to be the one, whatever the
//! noise is like; and one that is late far more often than the others are is not like them.

use super::evidence::Evidence;

/// What must be reached, before the number of ranks.
const NEED: f64 = 12.0;
/// A rank behind nine of ten large delays is what we look for,
const CULPRIT: f64 = 0.9;
/// or one that is late in so many stretches,
const OFTEN: f64 = 0.3;
/// where a healthy one is late in so many at least, whatever the others were seen to be: what one delay counts has an end.
const SELDOM: f64 = 0.002;
const FEWEST: usize = 4;
/// What a large delay is, in units of what is worth telling. On busy hosts everybody is late by a little all the time, and only
/// the large ones tell who is to blame; on quiet ones small ones do.
const LARGE: [f64; 5] = [2.5, 5.0, 10.0, 20.0, 40.0];

/// How much each rank differs in one stretch of time: (rank, difference).
type Column = Vec<(usize, f64)>;

/// Of each rank but those that are `known` to be slow all the time, whose delays say nothing of the others. The oldest column
/// comes first.
pub(super) fn weigh(columns: &[Column], known: &[bool], least: f64) -> Vec<Option<Evidence>> {
    let need = NEED + ((known.len().max(1) * LARGE.len()) as f64).ln();
    let largest = columns.iter().flatten().map(|(_, difference)| *difference).fold(0.0, f64::max);
    let mut best: Vec<Option<Sum>> = vec![None; known.len()];
    for large in LARGE.into_iter().take_while(|large| large * least <= largest) {
        for (best, sum) in best.iter_mut().zip(sums(columns, known, least, large * least)) {
            *best = best.iter().copied().chain(sum).reduce(Sum::stronger);
        }
    }
    let evidence = |sum: Sum| Evidence { score: sum.score, need, excess: sum.excess(), threshold: least };
    best.into_iter().map(|sum| sum.map(evidence)).collect()
}

/// What a stretch speaks for a rank's being slow: one it is late in, and another one.
#[derive(Debug, Clone, Copy)]
struct Reported {
    late: f64,
    other: f64,
}

impl Reported {
    /// Logarithms of a likelihood ratio, by how probable it is that a rank is late.
    fn of(if_slow: f64, if_equal: f64) -> Reported {
        Reported { late: (if_slow / if_equal).ln(), other: ((1.0 - if_slow) / (1.0 - if_equal)).ln() }
    }
}

/// What was seen of a rank so far, by one of the two ways to look at it: it begins anew whenever nothing speaks against the rank.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    score: f64,
    late: usize,
    /// What it lost, in how many stretches.
    lost: f64,
    seen: usize,
}

impl Sum {
    fn add(&mut self, difference: f64, is_late: bool, reported: Reported) {
        self.score += if is_late { reported.late } else { reported.other };
        self.late += usize::from(is_late);
        self.lost += difference.max(0.0);
        self.seen += 1;
        if self.score <= 0.0 {
            *self = Sum::default();
        }
    }

    fn excess(&self) -> f64 {
        self.lost / self.seen.max(1) as f64
    }

    fn stronger(self, other: Sum) -> Sum {
        if other.score > self.score { other } else { self }
    }
}

/// By rank, where there is enough to say something.
fn sums(columns: &[Column], known: &[bool], least: f64, large: f64) -> Vec<Option<Sum>> {
    let ranks = known.len();
    // How many of those that are looked at are late.
    let chance = |column: &Column| {
        let (mut late, mut seen) = (0, 0);
        for (_, difference) in column.iter().filter(|(rank, _)| !known[*rank]) {
            (late, seen) = (late + usize::from(*difference >= large), seen + 1);
        }
        late as f64 / seen.max(1) as f64
    };
    // Where many are late at once, none of them is it. A stretch in which nobody is late does not tell who it would be.
    let informative = columns.iter().enumerate().filter_map(|(at, column)| match chance(column) {
        0.0 => Some((at, column, Reported { late: 0.0, other: 0.0 })),
        chance if chance <= 0.5 => Some((at, column, Reported::of(CULPRIT, chance))),
        _ => None,
    });
    let informative: Vec<(usize, &Column, Reported)> = informative.collect();
    let (mut seen, mut late) = (vec![0usize; ranks], vec![0usize; ranks]);
    for (rank, difference) in informative.iter().flat_map(|(_, column, _)| *column) {
        let counts = usize::from(!known[*rank]);
        seen[*rank] += counts;
        late[*rank] += counts * usize::from(*difference >= large);
    }
    let (all_seen, all_late): (usize, usize) = (seen.iter().sum(), late.iter().sum());
    if all_late < FEWEST {
        return vec![None; ranks];
    }
    // How often the others are, as if they had been once more.
    let usual = |rank: usize| {
        let (late, seen) = (all_late - late[rank] + 1, all_seen - seen[rank] + 2);
        Reported::of(OFTEN, (late as f64 / seen as f64).clamp(SELDOM, OFTEN))
    };
    let by_rate: Vec<Reported> = (0..ranks).map(usual).collect();
    let (mut which, mut often) = (vec![Sum::default(); ranks], vec![Sum::default(); ranks]);
    let mut newest = vec![0usize; ranks];
    for (at, column, by_turn) in informative {
        for (rank, difference) in column.iter().copied().filter(|(rank, _)| !known[*rank]) {
            let is_late = difference >= large;
            newest[rank] = if is_late { at } else { newest[rank] };
            which[rank].add(difference, is_late, by_turn);
            often[rank].add(difference, is_late, by_rate[rank]);
        }
    }
    let sum = |rank: usize| {
        // What has not happened in the last quarter is over.
        let lasts = newest[rank] * 4 >= columns.len() * 3;
        // On a host with fewer CPUs than ranks somebody is late a little more often than the others for a minute or so.
        let often = Some(often[rank]).filter(|sum| sum.excess() >= LARGE[0] * least);
        let both = [Some(which[rank]), often].into_iter().flatten();
        both.filter(|sum| lasts && sum.late >= FEWEST).reduce(Sum::stronger)
    };
    (0..ranks).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tenth stretch somebody is late by 30%.
    fn columns(who: impl Fn(usize) -> usize) -> Vec<Vec<(usize, f64)>> {
        (0..240)
            .map(|at| {
                (0..8)
                    .map(|rank| (rank, if at % 10 == 0 && who(at / 10) == rank { 0.3 } else { 0.0 }))
                    .collect()
            })
            .collect()
    }

    fn named(columns: &[Column]) -> Vec<usize> {
        let found = weigh(columns, &[false; 8], 0.02);
        (0..8).filter(|rank| found[*rank].is_some_and(|evidence| evidence.names())).collect()
    }

    #[test]
    fn delays_of_always_the_same_rank_name_it() {
        assert_eq!(named(&columns(|_| 5)), [5]);
    }

    #[test]
    fn a_few_large_delays_within_seconds_are_enough_where_there_are_few_else() {
        let mut columns = columns(|at| (at * 5 + at * at) % 8);
        assert!(named(&columns).is_empty());
        for column in columns.iter_mut().rev().step_by(2).take(5) {
            column[3].1 = 0.6;
        }
        assert_eq!(named(&columns), [3]);
    }

    #[test]
    fn who_is_late_as_often_as_the_others_is_not_named_however_it_is_shared_out() {
        let mut seed = 7u64;
        for _ in 0..200 {
            let mut columns = vec![(0..8).map(|rank| (rank, 0.0)).collect::<Vec<(usize, f64)>>(); 240];
            for column in &mut columns {
                for (_, difference) in column.iter_mut() {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // One in twenty, and by more or less.
                    let drawn = (seed >> 33) as f64 / (1u64 << 31) as f64;
                    *difference = if drawn < 0.05 { 0.06 + drawn * 16.0 } else { 0.0 };
                }
            }
            assert!(named(&columns).is_empty());
        }
    }

    #[test]
    fn small_delays_of_everybody_do_not_hide_the_large_ones_of_one() {
        let mut columns = columns(|_| 5);
        for (at, column) in columns.iter_mut().enumerate() {
            column[(at * 5 + at * at) % 8].1 += 0.12;
        }
        assert_eq!(named(&columns), [5]);
    }

    #[test]
    fn somebody_who_is_always_late_hides_nobody() {
        let mut columns = columns(|_| 5);
        columns.iter_mut().for_each(|column| column[2].1 = 0.5);
        let mut known = [false; 8];
        known[2] = true;
        assert!(weigh(&columns, &known, 0.02)[5].is_some_and(|evidence| evidence.names()));
    }

    #[test]
    fn delays_that_take_turns_name_nobody() {
        assert!(named(&columns(|at| (at * 5 + at * at) % 8)).is_empty());
    }
}
