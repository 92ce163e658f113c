//! One collective, while its ranks are still being told.

use std::collections::BTreeMap;

/// When a rank came, and when it was done, by the clock of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub node: u32,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    pub shape: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Round {
    /// By rank in the communicator.
    pub arrivals: BTreeMap<u32, Arrival>,
    /// By the fleet's clock.
    pub first_seen_ns: u64,
    pub is_barrier: bool,
}

impl Round {
    pub(super) fn new(seen_ns: u64, is_barrier: bool) -> Round {
        Round { arrivals: BTreeMap::new(), first_seen_ns: seen_ns, is_barrier }
    }

    /// What was known of a rank stays known: the end of a call comes later, and pushes come twice.
    pub(super) fn put(&mut self, rank: u32, arrival: Arrival) -> bool {
        let fresh = !self.arrivals.contains_key(&rank);
        let place = self.arrivals.entry(rank).or_insert(arrival);
        place.end_ns = place.end_ns.or(arrival.end_ns);
        fresh
    }

    pub(super) fn is_complete(&self, nranks: u32) -> bool {
        self.arrivals.len() >= nranks as usize
            && self.arrivals.values().all(|arrival| arrival.end_ns.is_some())
    }
}
