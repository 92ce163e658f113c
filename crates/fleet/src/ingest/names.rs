//! Names that were seen: so many of a kind, shared by tokens and by clusters. Those that nobody used for a day are forgotten.

use gpuwhy_cohort::shares::{Shares, Sharing, Tenant};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_secs(86_400);

/// Who pushes, and to which cluster: both are held to their shares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) token: &'a Tenant,
    pub(super) cluster: &'a str,
}

#[derive(Debug)]
pub(super) struct Names(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    /// By cluster. A name is its cluster's, whoever pushed it; it is counted for the token that did so first.
    clusters: HashMap<Tenant, Known>,
    by_token: Shares,
    by_cluster: Shares,
}

#[derive(Debug, Default)]
struct Known {
    current: HashMap<Arc<str>, Tenant>,
    previous: HashMap<Arc<str>, Tenant>,
}

impl Names {
    pub(super) fn new(max: usize, sharing: Sharing) -> Names {
        Names(Mutex::new(Inner {
            began: Instant::now(),
            clusters: HashMap::new(),
            by_token: Shares::new(max, sharing.tokens),
            by_cluster: Shares::new(max, sharing.clusters),
        }))
    }

    /// Whether it may be used: it is known, or there is room for it in the owner's share.
    pub(super) fn admits(&self, owner: Owner<'_>, name: &str) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.clusters.get(owner.cluster).is_some_and(|known| known.current.contains_key(name)) {
            return true;
        }
        if inner.began.elapsed() > LASTS {
            inner.turn();
        }
        inner.add(owner, name)
    }
}

impl Inner {
    fn add(&mut self, owner: Owner<'_>, name: &str) -> bool {
        let known = self.clusters.get_mut(owner.cluster);
        if let Some(known) = known
            && let Some((name, token)) = known.previous.remove_entry(name)
        {
            known.current.insert(name, token);
            return true;
        }
        if !self.by_token.fits(owner.token, 1) || !self.by_cluster.fits(owner.cluster, 1) {
            return false;
        }
        let cluster = match self.clusters.get_key_value(owner.cluster) {
            Some((cluster, _)) => cluster.clone(),
            None => owner.cluster.into(),
        };
        self.by_token.take(owner.token, 1);
        self.by_cluster.take(&cluster, 1);
        self.clusters.entry(cluster).or_default().current.insert(name.into(), owner.token.clone());
        true
    }

    /// What was not used since the last time goes.
    fn turn(&mut self) {
        self.began = Instant::now();
        for (cluster, known) in &mut self.clusters {
            let gone = std::mem::replace(&mut known.previous, std::mem::take(&mut known.current));
            for token in gone.values() {
                self.by_token.give_back(token, 1);
                self.by_cluster.give_back(cluster, 1);
            }
        }
        self.clusters.retain(|_, known| !known.previous.is_empty());
    }
}

/// The clusters that each token pushes to. One for all clusters makes them up as it goes.
#[derive(Debug)]
pub(crate) struct ClusterNames {
    max: usize,
    by_token: Mutex<HashMap<Tenant, HashSet<Arc<str>>>>,
}

impl ClusterNames {
    /// So many for each token.
    pub(crate) fn new(max: usize) -> ClusterNames {
        ClusterNames { max, by_token: Mutex::new(HashMap::new()) }
    }

    pub(super) fn admits(&self, token: &Tenant, cluster: &str) -> bool {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = by_token.entry(token.clone()).or_default();
        clusters.contains(cluster) || clusters.len() < self.max && clusters.insert(cluster.into())
    }

    /// Those that it pushed to.
    pub(crate) fn of(&self, token: &str) -> Vec<Arc<str>> {
        let by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        by_token.get(token).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_always_there_and_new_ones_only_so_many() {
        let (names, token) = (Names::new(2, Sharing::default()), "t".into());
        let owner = Owner { token: &token, cluster: "c" };
        assert!(names.admits(owner, "one") && names.admits(owner, "two"));
        assert!(!names.admits(owner, "three"));
        assert!(names.admits(owner, "one"));
        let mut inner = names.0.lock().unwrap();
        inner.turn();
        assert!(!inner.add(owner, "three"), "yesterday's still count");
        assert!(inner.add(owner, "one"));
        inner.turn();
        assert!(inner.add(owner, "three") && inner.clusters["c"].previous.contains_key("one"));
        assert_eq!((inner.by_token.used(), inner.by_cluster.used()), (2, 2));
    }

    #[test]
    fn a_token_that_makes_up_names_leaves_room_for_others_however_many_clusters_it_names() {
        let names = Names::new(1_000, Sharing { tokens: true, clusters: true });
        let (one, other) = ("one".into(), "other".into());
        for number in 0..5_000 {
            names.admits(Owner { token: &one, cluster: "a" }, &format!("job-{number}"));
            names.admits(Owner { token: &one, cluster: &format!("c-{number}") }, "job");
        }
        let theirs = (0..100)
            .filter(|number| names.admits(Owner { token: &other, cluster: "b" }, &format!("job-{number}")));
        assert_eq!(theirs.count(), 100);
    }

    #[test]
    fn a_token_pushes_to_so_many_clusters() {
        let (clusters, token) = (ClusterNames::new(2), "t".into());
        assert!(
            clusters.admits(&token, "a") && clusters.admits(&token, "b") && !clusters.admits(&token, "c")
        );
        assert!(clusters.admits(&token, "a") && clusters.admits(&"u".into(), "c"));
        assert_eq!(clusters.of("u"), [Arc::from("c")]);
    }
}
