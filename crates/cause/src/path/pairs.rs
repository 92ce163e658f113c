//! Two threads that hand the work to each other: whose waits tell the turns.

use super::period::Sequences;
use crate::activity::BeatKind;
use std::collections::BTreeMap;

/// Waits of a thread that are nearly so many times those of another are two in each turn.
const TWICE: f64 = 1.9;

/// How often two threads hand the work to each other, from how often each waited for the other. Who finds the work done when it
/// comes to wait has not waited: the one that did so more often counts. Twice as often is another matter: two waits in a turn.
pub(super) fn turns_of_pair(waits: u64, back: u64) -> u64 {
    let is_of_turns = |count: u64, other: u64| count > other && (count as f64) < other as f64 * TWICE;
    if is_of_turns(back, waits) { back } else { waits }
}

/// Leaves out waits of a pair of threads for each other, where those in the other direction are the turns.
pub(super) fn one_of_pairs(sequences: &mut Sequences) {
    let counts: BTreeMap<u64, u64> = sequences
        .iter()
        .filter(|((kind, _), _)| *kind == BeatKind::HandOver)
        .map(|((_, pair), (_, times))| (*pair, times.len() as u64))
        .collect();
    let is_less = |pair: u64, count: u64| {
        counts.get(&pair.rotate_left(32)).is_some_and(|back| turns_of_pair(count, *back) != count)
    };
    sequences.retain(|(kind, pair), (_, times)| {
        *kind != BeatKind::HandOver || !is_less(*pair, times.len() as u64)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_waits_more_often_counts_unless_it_waits_twice_in_a_turn() {
        assert_eq!((turns_of_pair(40, 60), turns_of_pair(60, 40), turns_of_pair(40, 80)), (60, 60, 40));
    }
}
