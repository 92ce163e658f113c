//! Ranks that are slow now and then. Most of the time they are like the others, so medians do not show them; but when somebody
//! is much too late, it is always the same one. Among equals each is as likely to be the one, whatever the noise is like.

use super::evidence::Evidence;

/// What must be reached, before the number of ranks.
const NEED: f64 = 12.0;
/// A rank behind nine of ten large delays is what we look for.
const CULPRIT: f64 = 0.9;
const FEWEST: usize = 6;

/// Of each rank but those that are `known` to be slow all the time, whose delays say nothing of the others. `columns` hold, the
/// oldest first, the differences of all ranks in one stretch of time: (rank, difference).
pub(super) fn weigh(columns: &[Vec<(usize, f64)>], known: &[bool], least: f64) -> Vec<Option<Evidence>> {
    let ranks = known.len();
    let large = 2.5 * least;
    let need = NEED + (ranks.max(1) as f64).ln();
    let mut sums = vec![0.0f64; ranks];
    let mut counts = vec![0usize; ranks];
    let mut lost = vec![0.0f64; ranks];
    let mut newest = vec![0usize; ranks];
    for (at, column) in columns.iter().enumerate() {
        let others = || column.iter().filter(|(rank, _)| !known[*rank]);
        let hit = others().filter(|(_, d)| *d >= large).count();
        let chance = hit as f64 / others().count().max(1) as f64;
        for (rank, difference) in others() {
            lost[*rank] += difference.max(0.0);
            // Where many are late at once, none of them is it.
            if hit == 0 || chance > 0.5 {
                continue;
            }
            let is_late = *difference >= large;
            counts[*rank] += usize::from(is_late);
            newest[*rank] = if is_late { at } else { newest[*rank] };
            let told =
                if is_late { (CULPRIT / chance).ln() } else { ((1.0 - CULPRIT) / (1.0 - chance)).ln() };
            sums[*rank] += told;
            if sums[*rank] <= 0.0 {
                (sums[*rank], counts[*rank]) = (0.0, 0);
            }
        }
    }
    (0..ranks)
        .map(|rank| {
            let excess = lost[rank] / columns.len().max(1) as f64;
            // What has not happened in the last quarter is over.
            let enough = counts[rank] >= FEWEST && newest[rank] * 4 >= columns.len() * 3;
            enough.then_some(Evidence { score: sums[rank], need, excess, threshold: least })
        })
        .collect()
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

    fn named(columns: &[Vec<(usize, f64)>]) -> Vec<usize> {
        let found = weigh(columns, &[false; 8], 0.02);
        (0..8).filter(|rank| found[*rank].is_some_and(|evidence| evidence.names())).collect()
    }

    #[test]
    fn delays_of_always_the_same_rank_name_it() {
        assert_eq!(named(&columns(|_| 5)), [5]);
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
