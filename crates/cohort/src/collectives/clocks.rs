//! How much the clocks of nodes differ, told by collectives. Nobody is done with one before everybody has begun it: each one
//! that two nodes took part in bounds the difference from both sides, whatever hosts and networks did meanwhile. Both are
//! told of its end at about the same moment: the middle of those differences is the estimate, and the farther bound its error.

use crate::robust::median;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Bounds of so long are taken together, of the newest few: clocks drift by up to 0.1 ms in that time.
const WINDOW_NS: u64 = 2_000_000_000;
const WINDOWS: usize = 4;
/// Ends remembered of a window.
const ENDS: usize = 32;

/// The clock of a node beside that of the reference node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Clock {
    pub node: String,
    /// By how much it is ahead; nothing where no collective leads to it.
    pub ahead_ns: Option<i64>,
    /// By how much that may be wrong at most. Nothing where clocks jumped, or calls returned before they were done.
    pub error_ns: Option<u64>,
    /// The node whose clock is taken as right.
    pub reference: String,
    /// How many collectives tell.
    pub collectives: u64,
}

/// What a node saw of a collective: when the last of its ranks began, and when the first was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    pub begun_ns: u64,
    pub done_ns: u64,
}

#[derive(Debug, Clone)]
struct Window {
    began_ns: u64,
    least: i64,
    most: i64,
    count: u64,
    ends: Vec<i64>,
}

/// Two nodes: by how much the second clock is ahead of the first.
#[derive(Debug, Clone, Default)]
struct Pair {
    windows: VecDeque<Window>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    pub ahead_ns: i64,
    pub error_ns: Option<u64>,
    pub collectives: u64,
}

impl Pair {
    fn see(&mut self, one: Sight, other: Sight) {
        let least = signed(other.begun_ns, one.done_ns);
        let most = signed(other.done_ns, one.begun_ns);
        let end = signed(other.done_ns, one.done_ns);
        let fresh = match self.windows.back() {
            Some(window) => one.done_ns.abs_diff(window.began_ns) >= WINDOW_NS,
            None => true,
        };
        if fresh {
            if self.windows.len() == WINDOWS {
                self.windows.pop_front();
            }
            let window =
                Window { began_ns: one.done_ns, least: i64::MIN, most: i64::MAX, count: 0, ends: Vec::new() };
            self.windows.push_back(window);
        }
        let Some(window) = self.windows.back_mut() else { return };
        window.least = window.least.max(least);
        window.most = window.most.min(most);
        if window.ends.len() < ENDS {
            window.ends.push(end);
        } else if let Some(place) = window.ends.get_mut(window.count as usize % ENDS) {
            *place = end;
        }
        window.count += 1;
    }

    /// From the newest window back, as far as the bounds agree: before a clock was set there is nothing to learn.
    fn difference(&self) -> Option<Difference> {
        let (mut least, mut most, mut count) = (i64::MIN, i64::MAX, 0);
        let mut ends = Vec::new();
        for window in self.windows.iter().rev() {
            let both = (least.max(window.least), most.min(window.most));
            if both.0 > both.1 {
                break;
            }
            (least, most) = both;
            count += window.count;
            ends.extend(window.ends.iter().map(|end| *end as f64));
        }
        if let Some(likely) = median(&mut ends) {
            let ahead = (likely as i64).clamp(least, most);
            let error = most.abs_diff(ahead).max(ahead.abs_diff(least));
            return Some(Difference { ahead_ns: ahead, error_ns: Some(error), collectives: count });
        }
        // The newest window contradicts itself: its ends still tell something, but nothing bounds them.
        let newest = self.windows.back()?;
        let mut ends: Vec<f64> = newest.ends.iter().map(|end| *end as f64).collect();
        let ahead_ns = median(&mut ends)? as i64;
        Some(Difference { ahead_ns, error_ns: None, collectives: newest.count })
    }
}

/// All nodes of a job. The first that was seen is the reference.
#[derive(Debug, Clone, Default)]
pub(super) struct Clocks {
    pairs: BTreeMap<(u32, u32), Pair>,
    max_pairs: usize,
    /// As of the last [`Clocks::resolve`], by node.
    known: Vec<Option<Difference>>,
}

impl Clocks {
    /// More are not compared.
    pub(super) fn set_max_pairs(&mut self, max_pairs: usize) {
        self.max_pairs = max_pairs;
    }

    /// A collective as each of its nodes saw it; the first one is compared with all others.
    pub(super) fn see(&mut self, sights: &[(u32, Sight)]) {
        let Some(((first, one), others)) = sights.split_first() else { return };
        for (node, other) in others {
            if self.pairs.len() >= self.max_pairs && !self.pairs.contains_key(&(*first, *node)) {
                continue;
            }
            let pair = self.pairs.entry((*first, *node)).or_default();
            pair.see(*one, *other);
        }
    }

    /// Paths from the reference to every node, by the least error.
    pub(super) fn resolve(&mut self, nodes: usize) {
        let mut roads: BTreeMap<u32, Vec<(u32, Difference)>> = BTreeMap::new();
        for ((one, other), pair) in &self.pairs {
            let Some(difference) = pair.difference() else { continue };
            let back = Difference { ahead_ns: -difference.ahead_ns, ..difference };
            roads.entry(*one).or_default().push((*other, difference));
            roads.entry(*other).or_default().push((*one, back));
        }
        let mut known: Vec<Option<Difference>> = vec![None; nodes];
        let mut done = vec![false; nodes];
        if let Some(first) = known.first_mut() {
            *first = Some(Difference { ahead_ns: 0, error_ns: Some(0), collectives: 0 });
        }
        let mut next = BinaryHeap::from([Reverse((0, 0u32))]);
        while let Some(Reverse((_, node))) = next.pop() {
            let Some(here) = known.get(node as usize).copied().flatten() else { continue };
            if std::mem::replace(&mut done[node as usize], true) {
                continue;
            }
            for (to, road) in roads.get(&node).into_iter().flatten() {
                let reached = Difference {
                    ahead_ns: here.ahead_ns.saturating_add(road.ahead_ns),
                    error_ns: here.error_ns.zip(road.error_ns).map(|(a, b)| a.saturating_add(b)),
                    collectives: road.collectives,
                };
                let Some(place) = known.get_mut(*to as usize) else { continue };
                if place.is_none_or(|known| weight(&reached) < weight(&known)) {
                    *place = Some(reached);
                    next.push(Reverse((weight(&reached), *to)));
                }
            }
        }
        self.known = known;
    }

    pub(super) fn of(&self, node: u32) -> Option<Difference> {
        self.known.get(node as usize).copied().flatten()
    }
}

fn weight(difference: &Difference) -> u64 {
    difference.error_ns.unwrap_or(u64::MAX)
}

fn signed(of: u64, from: u64) -> i64 {
    (i128::from(of) - i128::from(from)).clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sight(begun_ns: u64, done_ns: u64) -> Sight {
        Sight { begun_ns, done_ns }
    }

    /// Collectives every 10 ms, 1 ms long; which node comes last takes turns.
    fn run(clocks: &mut Clocks, ahead_ns: u64, from_ms: u64, to_ms: u64) {
        for at in (from_ms..to_ms).step_by(10) {
            let end = at * MS + MS;
            let (early, late) = (at * MS - 3 * MS, at * MS);
            let (a, b) = if at % 20 == 0 { (early, late) } else { (late, early) };
            clocks.see(&[(0, sight(a, end)), (1, sight(b + ahead_ns, end + ahead_ns + 20_000))]);
        }
        clocks.resolve(2);
    }

    #[test]
    fn an_offset_of_five_seconds_is_found_and_bounded() {
        let mut clocks = Clocks { max_pairs: 100, ..Clocks::default() };
        run(&mut clocks, 5_000 * MS, 100, 2_000);
        let found = clocks.of(1).unwrap();
        assert!((found.ahead_ns - 5_000 * MS as i64).abs() <= 20_000, "{found:?}");
        // The collective itself takes 1 ms, so that is how far the bounds are apart.
        assert!(found.error_ns.unwrap() <= MS + 20_000, "{found:?}");
    }

    #[test]
    fn a_clock_that_is_set_is_followed() {
        let mut clocks = Clocks { max_pairs: 100, ..Clocks::default() };
        run(&mut clocks, 5_000 * MS, 100, 6_000);
        run(&mut clocks, 100 * MS, 6_000, 9_000);
        let found = clocks.of(1).unwrap();
        assert!((found.ahead_ns - 100 * MS as i64).abs() <= 20_000, "{found:?}");
    }

    #[test]
    fn calls_that_return_before_they_are_done_bound_nothing() {
        let mut clocks = Clocks { max_pairs: 100, ..Clocks::default() };
        for at in 1..200u64 {
            let late = if at % 2 == 0 { 3 * MS } else { 0 };
            let (a, b) = (at * 10 * MS, at * 10 * MS + late);
            let (c, d) = (b, a);
            let (one, other) = if at % 4 < 2 {
                (sight(a, a + 10_000), sight(b, b + 10_000))
            } else {
                (sight(c, c + 10_000), sight(d, d + 10_000))
            };
            clocks.see(&[(0, one), (1, other)]);
        }
        clocks.resolve(2);
        assert_eq!(clocks.of(1).unwrap().error_ns, None);
    }

    #[test]
    fn nodes_without_a_common_collective_are_reached_over_others() {
        let mut clocks = Clocks { max_pairs: 100, ..Clocks::default() };
        for at in 1..100u64 {
            let end = at * 10 * MS;
            clocks.see(&[(0, sight(end - MS, end)), (1, sight(end - MS + 700, end + 700))]);
            clocks.see(&[(1, sight(end - MS + 700, end + 700)), (2, sight(end - MS, end - 300))]);
        }
        clocks.resolve(4);
        assert_eq!(clocks.of(2).unwrap().ahead_ns, -300);
        assert_eq!(clocks.of(3), None);
    }
}
