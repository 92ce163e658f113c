//! Ranks that do the same work. In a pipeline they do not, and a stage that has more to do is no straggler.
//!
//! Ranks that send to each other are stages of one pipeline, so a collective among them joins different work. A collective
//! that joins no two ranks of one pipeline joins replicas: those are the peers.

use super::communicator::Communicator;
use std::collections::{BTreeMap, BTreeSet};

/// Sets that are merged; each is told by its smallest rank.
#[derive(Default)]
struct Sets(BTreeMap<u32, u32>);

impl Sets {
    fn root(&self, of: u32) -> u32 {
        let mut at = of;
        while let Some(up) = self.0.get(&at).filter(|up| **up != at) {
            at = *up;
        }
        at
    }

    fn merge(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        self.0.insert(one.max(other), one.min(other));
        self.0.entry(one.min(other)).or_insert(one.min(other));
    }
}

/// By rank in the job, a number for its role. Nothing where nobody sends to anybody: all do the same.
pub(super) fn roles<'a>(comms: impl Iterator<Item = &'a Communicator> + Clone) -> Option<BTreeMap<u32, u32>> {
    let mut lanes = Sets::default();
    let mut has_pipeline = false;
    for comm in comms.clone().filter(|comm| comm.has_point_to_point && !comm.is_exchange()) {
        has_pipeline = true;
        let rank = |seat: &u32| comm.seats.get(seat).map(|seat| seat.rank);
        if comm.edges_unknown {
            let mut ranks = comm.seats.values().map(|seat| seat.rank);
            let Some(first) = ranks.next() else { continue };
            ranks.for_each(|other| lanes.merge(first, other));
        } else {
            for (one, other) in comm.edges.iter().filter_map(|(one, other)| Some((rank(one)?, rank(other)?)))
            {
                lanes.merge(one, other);
            }
        }
    }
    if !has_pipeline {
        return None;
    }
    let mut same = Sets::default();
    let mut all = BTreeSet::new();
    for comm in comms {
        let ranks: Vec<u32> = comm.seats.values().map(|seat| seat.rank).collect();
        all.extend(ranks.iter().copied());
        let lanes_seen: BTreeSet<u32> = ranks.iter().map(|rank| lanes.root(*rank)).collect();
        if comm.has_collectives
            && lanes_seen.len() == ranks.len()
            && let Some((first, others)) = ranks.split_first()
        {
            others.iter().for_each(|other| same.merge(*first, *other));
        }
    }
    Some(all.into_iter().map(|rank| (rank, same.root(rank))).collect())
}
