//! A limit that tenants share. Nobody may have more than what is left for all others: whoever takes much leaves as much, and
//! whoever comes next always finds room. Where there is one tenant only, it may have all.

use std::collections::HashMap;
use std::sync::Arc;

/// Whom something is counted for: a token, or a cluster.
pub type Tenant = Arc<str>;

/// Of what there may be more than one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sharing {
    pub tokens: bool,
    pub clusters: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Shares {
    max: usize,
    is_shared: bool,
    used: usize,
    by: HashMap<Tenant, usize>,
}

impl Shares {
    /// `is_shared`: there may be more than one tenant.
    pub fn new(max: usize, is_shared: bool) -> Shares {
        Shares { max, is_shared, used: 0, by: HashMap::new() }
    }

    pub fn fits(&self, tenant: &str, count: usize) -> bool {
        let left = self.max.saturating_sub(self.used);
        let own = if self.is_shared { self.by.get(tenant).copied().unwrap_or(0) } else { 0 };
        own.saturating_add(count) <= left
    }

    /// Whether it was granted.
    pub fn take(&mut self, tenant: &Tenant, count: usize) -> bool {
        let fits = self.fits(tenant, count);
        if fits && count > 0 {
            self.used += count;
            *self.by.entry(tenant.clone()).or_default() += count;
        }
        fits
    }

    pub fn give_back(&mut self, tenant: &str, count: usize) {
        self.used = self.used.saturating_sub(count);
        if let Some(own) = self.by.get_mut(tenant) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.by.remove(tenant);
            }
        }
    }

    /// Counts anew.
    pub fn recount<'a>(&mut self, all: impl Iterator<Item = (&'a Tenant, usize)>) {
        (self.used, self.by) = (0, HashMap::new());
        for (tenant, count) in all {
            self.used += count;
            *self.by.entry(tenant.clone()).or_default() += count;
        }
    }

    /// By all.
    pub fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_all_it_can_leaves_room_for_the_next() {
        let mut shares = Shares::new(1_000, true);
        let names: Vec<Tenant> = ["a", "b", "c"].map(Tenant::from).to_vec();
        let taken: Vec<usize> =
            names.iter().map(|name| (0..2_000).filter(|_| shares.take(name, 1)).count()).collect();
        assert_eq!(taken, [500, 250, 125]);
        shares.give_back("a", 500);
        assert!(shares.take(&names[1], 100), "what is given back is there for others");
        assert!(!shares.take(&names[2], 10_000));
    }

    #[test]
    fn one_tenant_alone_has_all() {
        let mut shares = Shares::new(1_000, false);
        assert!(shares.take(&"a".into(), 1_000) && !shares.take(&"a".into(), 1));
        shares.give_back("a", 1_000);
        assert_eq!(shares.used(), 0);
    }
}
