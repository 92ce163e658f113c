//! A bounded map that keeps what was used lately.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Two generations: when the young one is full it becomes the old one, and what is not asked for again goes with it.
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    pub(crate) fn new(most: usize) -> Recent<K, V> {
        Recent { young: HashMap::new(), old: HashMap::new(), half: (most / 2).max(1) }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.insert(key.clone(), value.clone());
        Some(value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = Recent::new(8);
        recent.insert(0, "kept");
        for key in 1..100 {
            recent.insert(key, "new");
            assert_eq!(recent.get(&0), Some("kept"));
        }
        assert!(recent.get(&1).is_none());
        assert!(recent.young.len() + recent.old.len() <= 8);
    }
}
