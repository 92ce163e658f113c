//! Time by cause, and by who was behind it: what a finding's causes are made from.

use crate::evidence::AttributedTime;
use gpuwhy_model::{Cause, CauseShare, Culprit};
use std::collections::BTreeMap;

/// Culprits that are named for one cause; the rest is summed.
const MAX_NAMED: usize = 8;

#[derive(Debug, Clone, Default)]
pub(crate) struct Attribution(BTreeMap<Cause, Attributed>);

#[derive(Debug, Clone, Default)]
struct Attributed {
    ns: u64,
    by: BTreeMap<Who, Share>,
    evidence: Vec<String>,
}

/// A process, or something else that has a name: a connection, a rank.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Process(u32),
    Rank(i32),
    Named(String),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Share {
    pub(crate) comm: String,
    pub(crate) cgroup_id: u64,
    pub(crate) pid: Option<u32>,
    pub(crate) ns: u64,
    pub(crate) count: u64,
    /// Of the name that stands for it: threads of a process are one culprit, named for the one that did most.
    pub(crate) most_ns: u64,
}

impl Attribution {
    pub(crate) fn add(&mut self, cause: Cause, ns: u64) {
        if ns > 0 {
            self.0.entry(cause).or_default().ns += ns;
        }
    }

    /// Time with whoever was behind it, where that is known.
    pub(crate) fn add_attributed(&mut self, cause: Cause, attributed: &AttributedTime) {
        self.add(cause, attributed.ns);
        let who = match (attributed.by_pid, attributed.by_comm.is_empty()) {
            (0, true) => return,
            // What a CPU runs when it has nothing to do: whoever was woken from there was woken by a timer or a device.
            (0, false) if attributed.by_comm.starts_with("swapper/") => return,
            (0, false) => Who::Named(attributed.by_comm.clone()),
            (pid, _) => Who::Process(pid),
        };
        let share = Share {
            comm: attributed.by_comm.clone(),
            cgroup_id: attributed.by_cgroup_id,
            pid: Some(attributed.by_pid).filter(|pid| *pid != 0),
            ns: attributed.ns,
            count: attributed.count,
            ..Share::default()
        };
        self.blame(cause, who, share);
    }

    /// Names somebody for time that is billed already.
    pub(crate) fn blame(&mut self, cause: Cause, who: Who, share: Share) {
        if share.ns == 0 {
            return;
        }
        let known = self.0.entry(cause).or_default().by.entry(who).or_default();
        // The same time twice: the lesser name, so that rows in any order give one answer.
        if (share.ns, &known.comm) > (known.most_ns, &share.comm) {
            known.comm = share.comm;
            known.most_ns = share.ns;
        }
        known.cgroup_id = known.cgroup_id.max(share.cgroup_id);
        known.pid = known.pid.max(share.pid);
        known.ns += share.ns;
        known.count += share.count;
    }

    pub(crate) fn note(&mut self, cause: Cause, sentence: String) {
        if let Some(entry) = self.0.get_mut(&cause).filter(|entry| !entry.evidence.contains(&sentence)) {
            entry.evidence.push(sentence);
        }
    }

    /// Takes so much from a cause and gives what it had.
    pub(crate) fn take(&mut self, cause: Cause, ns: u64) -> u64 {
        let Some(entry) = self.0.get_mut(&cause) else { return 0 };
        let taken = entry.ns.min(ns);
        entry.ns -= taken;
        for share in entry.by.values_mut() {
            share.ns = share.ns.min(entry.ns);
        }
        if entry.ns == 0 {
            self.0.remove(&cause);
        }
        taken
    }

    /// Leaves a share of what is billed to a cause, and to everybody behind it.
    pub(crate) fn scale(&mut self, cause: Cause, share: f64) {
        let part = |ns: u64| (ns as f64 * share) as u64;
        let Some(entry) = self.0.get_mut(&cause) else { return };
        entry.ns = part(entry.ns);
        for by in entry.by.values_mut() {
            by.ns = part(by.ns);
        }
        if entry.ns == 0 {
            self.0.remove(&cause);
        }
    }

    /// Moves so much from one cause to another; who was behind it stays behind.
    pub(crate) fn rename(&mut self, from: Cause, to: Cause, ns: u64) {
        let taken = self.take(from, ns);
        self.add(to, taken);
    }

    pub(crate) fn ns(&self, cause: Cause) -> u64 {
        self.0.get(&cause).map_or(0, |entry| entry.ns)
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.0.values().map(|entry| entry.ns).sum()
    }

    pub(crate) fn sum_of(&self, wanted: impl Fn(Cause) -> bool) -> u64 {
        self.0.iter().filter(|(cause, _)| wanted(**cause)).map(|(_, entry)| entry.ns).sum()
    }

    pub(crate) fn only(&self, wanted: impl Fn(Cause) -> bool) -> Attribution {
        Attribution(
            self.0
                .iter()
                .filter(|(cause, _)| wanted(**cause))
                .map(|(cause, entry)| (*cause, entry.clone()))
                .collect(),
        )
    }

    /// The cause with the most time.
    pub(crate) fn main(&self) -> Option<Cause> {
        self.0
            .iter()
            .max_by_key(|(cause, entry)| (entry.ns, std::cmp::Reverse(**cause)))
            .map(|(cause, _)| *cause)
    }

    /// The culprit with the most time of a cause.
    pub(crate) fn main_culprit(&self, cause: Cause) -> Option<(&Who, &Share)> {
        self.0.get(&cause)?.by.iter().max_by_key(|(who, share)| (share.ns, std::cmp::Reverse(*who)))
    }

    pub(crate) fn culprits(&self, cause: Cause) -> usize {
        self.0.get(&cause).map_or(0, |entry| entry.by.len())
    }

    /// Largest first, with shares that sum to 100.
    pub(crate) fn shares(&self, cgroup: impl Fn(u64) -> Option<String>) -> Vec<CauseShare> {
        let total = self.total_ns().max(1) as f64;
        let mut attribution: Vec<(&Cause, &Attributed)> =
            self.0.iter().filter(|(_, entry)| entry.ns > 0).collect();
        attribution.sort_by_key(|(cause, entry)| (std::cmp::Reverse(entry.ns), **cause));
        attribution
            .into_iter()
            .map(|(cause, entry)| CauseShare {
                class: *cause,
                share_pct: 100.0 * entry.ns as f64 / total,
                ms: entry.ns as f64 / 1e6,
                by: culprits(entry, &cgroup),
                evidence: entry.evidence.clone(),
            })
            .collect()
    }

    pub(crate) fn explained_pct(&self) -> f64 {
        100.0 * self.sum_of(Cause::explains) as f64 / self.total_ns().max(1) as f64
    }
}

fn culprits(entry: &Attributed, cgroup: &impl Fn(u64) -> Option<String>) -> Vec<Culprit> {
    // Somebody who was there once is not behind it.
    let least = entry.ns / 100;
    let mut by: Vec<(&Who, &Share)> =
        entry.by.iter().filter(|(_, share)| share.ns > 0 && share.ns >= least).collect();
    by.sort_by_key(|(who, share)| (std::cmp::Reverse(share.ns), *who));
    by.into_iter()
        .take(MAX_NAMED)
        .map(|(who, share)| Culprit {
            pid: share.pid,
            comm: share.comm.clone(),
            cgroup: Some(share.cgroup_id).filter(|id| *id != 0).and_then(cgroup),
            rank: match who {
                Who::Rank(rank) => Some(*rank),
                _ => None,
            },
            ms: share.ns as f64 / 1e6,
            count: share.count,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(pid: u32, comm: &str, ns: u64) -> AttributedTime {
        AttributedTime {
            pid: 1,
            tid: 1,
            op: None,
            cause: Cause::CpuPreempted,
            by_pid: pid,
            by_tid: pid,
            by_comm: comm.into(),
            by_cgroup_id: 0,
            ns,
            count: 1,
            first_ns: 0,
            last_ns: 0,
        }
    }

    #[test]
    fn threads_of_a_process_are_one_culprit_in_any_order() {
        let rows = [by(9, "b", 5), by(9, "a", 5), by(9, "c", 3), by(0, "", 7)];
        let mut shares = Vec::new();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut attribution = Attribution::default();
            for at in order {
                attribution.add_attributed(Cause::CpuPreempted, &rows[at]);
            }
            shares.push(attribution.shares(|_| None));
        }
        assert_eq!(shares[0], shares[1]);
        assert_eq!(shares[0], shares[2]);
        let first = &shares[0][0];
        assert_eq!((first.ms, first.by.len(), first.by[0].comm.as_str()), (20e-6, 1, "a"));
        assert_eq!(first.by[0].count, 3);
    }

    #[test]
    fn what_is_taken_is_gone_and_shares_sum_to_100() {
        let mut attribution = Attribution::default();
        attribution.add(Cause::CpuSelf, 100);
        attribution.add(Cause::Unknown, 50);
        attribution.rename(Cause::CpuSelf, Cause::GpuColdstart, 70);
        assert_eq!((attribution.ns(Cause::CpuSelf), attribution.ns(Cause::GpuColdstart)), (30, 70));
        assert_eq!(attribution.take(Cause::Unknown, 80), 50);
        let sum: f64 = attribution.shares(|_| None).iter().map(|share| share.share_pct).sum();
        assert!((sum - 100.0).abs() < 1e-9);
        assert_eq!(attribution.main(), Some(Cause::GpuColdstart));
    }
}
