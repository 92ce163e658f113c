//! A map that stays small: beyond its size the oldest entry is forgotten.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Table<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Keys by age, oldest first.
    ages: BTreeMap<u64, K>,
    next_age: u64,
    most: usize,
}

impl<K: Eq + Hash + Clone, V> Table<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Table { entries: HashMap::new(), ages: BTreeMap::new(), next_age: 0, most }
    }

    pub(crate) fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// The newest entry from now on. What had to go for it is returned.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        self.remove(&key);
        let forgotten = self.make_room();
        let age = self.new_age(&key);
        self.entries.insert(key, (age, value));
        forgotten
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let age = if self.contains(&key) {
            0
        } else {
            self.make_room();
            self.new_age(&key)
        };
        &mut self.entries.entry(key).or_insert_with(|| (age, make())).1
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (age, value) = self.entries.remove(key)?;
        self.ages.remove(&age);
        Some(value)
    }

    /// Oldest first.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.ages.values()
    }

    /// Oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.ages.values().filter_map(|key| self.get(key).map(|value| (key, value)))
    }

    /// In no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let ages = &mut self.ages;
        self.entries.retain(|key, (age, value)| {
            let kept = keep(key, value);
            if !kept {
                ages.remove(age);
            }
            kept
        });
    }

    fn new_age(&mut self, key: &K) -> u64 {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.insert(age, key.clone());
        age
    }

    fn make_room(&mut self) -> Option<(K, V)> {
        if self.entries.len() < self.most {
            return None;
        }
        let (_, oldest) = self.ages.pop_first()?;
        let (_, value) = self.entries.remove(&oldest)?;
        Some((oldest, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut table = Table::new(2);
        assert_eq!(table.insert("a", 1), None);
        assert_eq!(table.insert("b", 2), None);
        *table.get_or_insert_with("a", || 9) += 10;
        assert_eq!(table.insert("c", 3), Some(("a", 11)));
        assert_eq!(table.insert("b", 4), None);
        assert_eq!(*table.get_or_insert_with("d", || 5), 5);
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(table.remove("b"), Some(4));
        table.retain(|_, value| *value != 5);
        assert_eq!((table.values().count(), table.iter().count()), (0, 0));
    }
}
