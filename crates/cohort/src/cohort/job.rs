//! The ranks of one job and what was said of them.

use super::member::Member;
use super::regression::Regression;
use super::{Limits, Signal, Threshold, Verdict};
use crate::collectives::{Joiner, Record, Stuck, Wait};
use crate::robust::{MAD_TO_SIGMA, mad, median};
use crate::shares::Tenant;
use std::collections::BTreeMap;

/// Whoever has no rank is told by its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Rank(u32),
    Node(String),
}

impl Who {
    pub(super) fn rank(&self) -> Option<u32> {
        match self {
            Who::Rank(rank) => Some(*rank),
            Who::Node(_) => None,
        }
    }
}

/// Healths differ by so much for no reason.
const HEALTH_FLOOR: f64 = 0.02;
const QUORUM: usize = 3;

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub cluster: Tenant,
    pub name: String,
    /// The token that its ranks are counted for.
    pub token: Tenant,
    pub nranks: u32,
    pub seen_ns: u64,
    pub members: BTreeMap<Who, Member>,
    pub joiner: Joiner,
    pub slower: Regression,
    pub standing: Vec<Verdict>,
    pub threshold: Threshold,
    waits: Vec<Wait>,
}

impl Job {
    pub(super) fn new(cluster: &str, name: &str, token: &Tenant) -> Job {
        Job {
            cluster: cluster.into(),
            name: name.into(),
            token: token.clone(),
            nranks: 0,
            seen_ns: 0,
            members: BTreeMap::new(),
            joiner: Joiner::default(),
            slower: Regression::default(),
            standing: Vec::new(),
            threshold: Threshold {
                signal: Signal::Health,
                value: None,
                median: None,
                mad: None,
                quorum_met: false,
                cohort: format!("{cluster}/{name}"),
                ranks: 0,
                nranks: 0,
                coverage: 0.0,
            },
            waits: Vec::new(),
        }
    }

    pub(super) fn member(&mut self, who: &Who, node: &str, seen_ns: u64) -> &mut Member {
        if !self.members.contains_key(who) {
            self.members.insert(who.clone(), Member::default());
        }
        let member = self.members.entry(who.clone()).or_default();
        if member.node != node {
            // A rank that moved is another one: what its old place did says nothing of the new one.
            *member = Member { node: node.into(), ..Member::default() };
        }
        member.seen_ns = member.seen_ns.max(seen_ns);
        self.seen_ns = self.seen_ns.max(seen_ns);
        member
    }

    pub(super) fn collective(&mut self, rank: u32, node: &str, record: &Record<'_>, seen_ns: u64) -> bool {
        if self.joiner.starts_again(rank, record.pid, seen_ns) {
            // What the process before it did says nothing of this one.
            self.members.remove(&Who::Rank(rank));
        }
        self.member(&Who::Rank(rank), node, seen_ns);
        let mut waits = std::mem::take(&mut self.waits);
        let taken = self.joiner.take(rank, node, record, seen_ns, &mut waits);
        self.meter(&mut waits);
        self.waits = waits;
        taken
    }

    pub(super) fn stuck(&mut self, rank: u32, node: &str, stuck: &Stuck<'_>, seen_ns: u64) {
        self.member(&Who::Rank(rank), node, seen_ns);
        self.joiner.stuck(rank, node, stuck, seen_ns);
    }

    /// Ranks that have not been heard of for so long are no more.
    pub(super) fn forget(&mut self, now_ns: u64, forget_ns: u64) {
        let is_known = |seen_ns: u64| now_ns.saturating_sub(seen_ns) <= forget_ns;
        self.members.retain(|_, member| is_known(member.seen_ns));
        self.joiner.forget(now_ns, forget_ns);
    }

    /// Gives up on records that do not come, and finds clocks anew.
    pub(super) fn tick(&mut self, now_ns: u64) {
        let mut waits = std::mem::take(&mut self.waits);
        self.joiner.tick(now_ns, &mut waits);
        self.meter(&mut waits);
        self.waits = waits;
    }

    fn meter(&mut self, waits: &mut Vec<Wait>) {
        for wait in waits.drain(..) {
            if let Some(member) = self.members.get_mut(&Who::Rank(wait.rank)) {
                member.meter.add(&wait);
            }
        }
    }

    pub(super) fn has_quorum(&self, ranks: usize) -> bool {
        ranks >= QUORUM && ranks * 2 >= self.nranks as usize
    }

    pub(super) fn set_threshold(&mut self, now_ns: u64, limits: &Limits) {
        let fresh = |member: &&Member| now_ns.saturating_sub(member.seen_ns) <= limits.stale_ns;
        let ranks = self.members.values().filter(fresh).count();
        let healths: Vec<f64> = self
            .members
            .values()
            .filter(fresh)
            .filter_map(|member| member.recent(Signal::Health, now_ns, limits.stale_ns))
            .collect();
        let middle = median(&mut healths.clone());
        let spread = middle.map(|middle| mad(&healths, middle));
        let nranks = (self.nranks as usize).max(ranks);
        let value = middle
            .zip(spread)
            .map(|(middle, spread)| middle - limits.k * (MAD_TO_SIGMA * spread).max(HEALTH_FLOOR));
        self.threshold = Threshold {
            value,
            median: middle,
            mad: spread,
            quorum_met: self.has_quorum(ranks),
            ranks,
            nranks,
            coverage: if nranks == 0 { 0.0 } else { ranks as f64 / nranks as f64 },
            ..self.threshold.clone()
        };
    }
}
