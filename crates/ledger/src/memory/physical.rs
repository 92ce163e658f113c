//! Physical memory: it lives while anybody has a handle of it or an address for it, whichever goes last.

use crate::table::Table;
use crate::timeline::Span;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// Handles and addresses followed. Beyond, the oldest handles are forgotten, and new addresses are not followed.
const MAX_REFERENCES: usize = 262_144;
/// Handles and mappings that ended lately: what was done with them may be told late.
const MAX_PAST: usize = 4_096;
const MAX_UNMAPPED: usize = 256;

/// The ledger's own number of a piece of memory: its handle may be used again while it is still mapped.
pub(crate) type Id = u64;

#[derive(Debug)]
pub(crate) struct Physical {
    /// Handles and mappings of each.
    references: HashMap<Id, u64>,
    handles: Table<u64, Handle>,
    mappings: BTreeMap<u64, Mapping>,
    past_handles: Table<u64, Past>,
    past_mappings: Table<u64, Past>,
    /// Calls that unmap, of late.
    unmapped: VecDeque<Unmapped>,
    next_id: Id,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    id: Id,
    /// How often it was given.
    count: u64,
    since_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    id: Id,
    bytes: u64,
    since_ns: u64,
}

/// What a handle or an address stood for.
#[derive(Debug)]
struct Past {
    id: Id,
    since_ns: u64,
    until_ns: u64,
}

impl Past {
    /// What it was at that time.
    fn at(&self, at_ns: u64) -> Option<Id> {
        (self.since_ns <= at_ns && at_ns <= self.until_ns).then_some(self.id)
    }
}

#[derive(Debug)]
struct Unmapped {
    addresses: Range<u64>,
    start_ns: u64,
}

/// What a call did to the memory it was about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Nobody holds these any more.
    pub(crate) dead: Vec<Id>,
    /// It was thought to be dead: the record that says otherwise was late.
    pub(crate) revived: Option<Id>,
}

impl Physical {
    pub(crate) fn new() -> Self {
        Physical {
            references: HashMap::new(),
            handles: Table::new(MAX_REFERENCES),
            mappings: BTreeMap::new(),
            past_handles: Table::new(MAX_PAST),
            past_mappings: Table::new(MAX_PAST),
            unmapped: VecDeque::new(),
            next_id: 0,
        }
    }

    /// New memory, and what its handle stood for before. The new memory may be dead itself, where its record was so
    /// late that its handle is another's by now.
    pub(crate) fn create(&mut self, handle: u64, span: Span) -> (Id, Effect) {
        self.next_id += 1;
        let id = self.next_id;
        let mut effect = Effect::default();
        match self.handles.get(&handle).copied() {
            Some(newer) if newer.since_ns > span.end_ns => {
                let past = Past { id, since_ns: span.end_ns, until_ns: newer.since_ns };
                self.past_handles.insert(handle, past);
                effect.dead.push(id);
            }
            old => {
                if let Some(old) = old {
                    self.drop_references(old.id, old.count, &mut effect);
                }
                self.hold(handle, Handle { id, count: 1, since_ns: span.end_ns });
                self.references.insert(id, 1);
            }
        }
        (id, effect)
    }

    pub(crate) fn map(&mut self, handle: u64, address: u64, bytes: u64, span: Span) -> Option<Effect> {
        let held = self.handles.get(&handle).filter(|held| held.since_ns <= span.start_ns);
        let past = || self.past_handles.get(&handle)?.at(span.start_ns);
        let id = held.map(|held| held.id).or_else(past)?;
        let mut effect = Effect::default();
        if let Some(until_ns) = self.mapping_ended_ns(address, span.end_ns) {
            self.past_mappings.insert(address, Past { id, since_ns: span.end_ns, until_ns });
            return Some(effect);
        }
        if self.mappings.len() >= MAX_REFERENCES {
            return Some(effect);
        }
        let old = self.mappings.insert(address, Mapping { id, bytes, since_ns: span.end_ns });
        self.add_reference(id, &mut effect);
        if let Some(old) = old {
            self.drop_mapping(address, old, span.end_ns, &mut effect);
        }
        Some(effect)
    }

    /// One call may unmap several mappings, each as a whole; some of them may not have been told yet.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64, span: Span) -> Effect {
        let addresses = address..address.saturating_add(bytes.max(1));
        let old = |(_, mapping): &(&u64, &Mapping)| mapping.since_ns <= span.start_ns;
        let found = self.mappings.range(addresses.clone()).filter(old);
        let found: Vec<u64> = found.map(|(at, _)| *at).collect();
        if self.unmapped.len() == MAX_UNMAPPED {
            self.unmapped.pop_front();
        }
        self.unmapped.push_back(Unmapped { addresses, start_ns: span.start_ns });
        let mut effect = Effect::default();
        for address in found {
            if let Some(mapping) = self.mappings.remove(&address) {
                self.drop_mapping(address, mapping, span.end_ns, &mut effect);
            }
        }
        effect
    }

    pub(crate) fn release(&mut self, handle: u64, span: Span) -> Option<Effect> {
        let held = self.handles.get_mut(&handle).filter(|held| held.since_ns <= span.start_ns)?;
        held.count -= 1;
        let Handle { id, count, since_ns } = *held;
        if count == 0 {
            self.handles.remove(&handle);
            self.past_handles.insert(handle, Past { id, since_ns, until_ns: span.end_ns });
        }
        let mut effect = Effect::default();
        self.drop_references(id, 1, &mut effect);
        Some(effect)
    }

    /// One more handle, or the same once more, of what is mapped there.
    pub(crate) fn retain(&mut self, handle: u64, address: u64, span: Span) -> Option<Effect> {
        let past = || self.past_mappings.get(&address)?.at(span.start_ns);
        let id = self.mapped_at(address, span.start_ns).or_else(past)?;
        let mut effect = Effect::default();
        match self.handles.get(&handle).copied() {
            Some(same) if same.id == id => self.hold(handle, Handle { count: same.count + 1, ..same }),
            Some(newer) if newer.since_ns > span.end_ns => return Some(effect),
            old => {
                self.hold(handle, Handle { id, count: 1, since_ns: span.end_ns });
                if let Some(old) = old {
                    self.drop_references(old.id, old.count, &mut effect);
                }
            }
        }
        self.add_reference(id, &mut effect);
        Some(effect)
    }

    fn mapped_at(&self, address: u64, at_ns: u64) -> Option<Id> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (mapping.since_ns <= at_ns && address - start < mapping.bytes.max(1)).then_some(mapping.id)
    }

    /// When a mapping ended whose record came later than that of its end.
    fn mapping_ended_ns(&self, address: u64, since_ns: u64) -> Option<u64> {
        let mut unmapped = self.unmapped.iter().filter(|unmapped| unmapped.addresses.contains(&address));
        let unmapped = unmapped.find(|unmapped| unmapped.start_ns >= since_ns);
        let newer = self.mappings.get(&address).filter(|newer| newer.since_ns > since_ns);
        unmapped.map(|unmapped| unmapped.start_ns).or(newer.map(|newer| newer.since_ns))
    }

    fn drop_mapping(&mut self, address: u64, mapping: Mapping, until_ns: u64, effect: &mut Effect) {
        let Mapping { id, since_ns, .. } = mapping;
        self.past_mappings.insert(address, Past { id, since_ns, until_ns });
        self.drop_references(id, 1, effect);
    }

    fn add_reference(&mut self, id: Id, effect: &mut Effect) {
        let references = self.references.entry(id).or_default();
        *references += 1;
        effect.revived = (*references == 1).then_some(id);
    }

    fn hold(&mut self, handle: u64, held: Handle) {
        if let Some((_, forgotten)) = self.handles.insert(handle, held) {
            // It is not freed, only out of sight.
            self.drop_references(forgotten.id, forgotten.count, &mut Effect::default());
        }
    }

    fn drop_references(&mut self, id: Id, count: u64, effect: &mut Effect) {
        let Some(references) = self.references.get_mut(&id) else { return };
        *references = references.saturating_sub(count);
        if *references == 0 {
            self.references.remove(&id);
            effect.dead.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(end_ns: u64) -> Span {
        Span { start_ns: end_ns - 1, end_ns }
    }

    fn dead(ids: &[Id]) -> Option<Effect> {
        Some(Effect { dead: ids.to_vec(), revived: None })
    }

    #[test]
    fn memory_lives_while_it_is_held_or_mapped() {
        let mut physical = Physical::new();
        let (first, _) = physical.create(0xa, at(10));
        assert_eq!(physical.map(0xa, 0x1000, 0x1000, at(20)), dead(&[]));
        assert_eq!(physical.release(0xa, at(30)), dead(&[]));
        assert_eq!(physical.retain(0xb, 0x1fff, at(40)), dead(&[]));
        assert_eq!(physical.retain(0xc, 0x2000, at(41)), None);
        assert_eq!(Some(physical.unmap(0x1000, 0x1000, at(50))), dead(&[]));
        assert_eq!(physical.release(0xb, at(60)), dead(&[first]));
        assert_eq!(physical.release(0xb, at(70)), None);
        assert!(physical.references.is_empty() && physical.mappings.is_empty());
        assert_eq!(physical.handles.keys().count(), 0);
    }

    #[test]
    fn one_call_unmaps_all_it_covers() {
        let mut physical = Physical::new();
        let (first, _) = physical.create(0xa, at(10));
        let (second, _) = physical.create(0xb, at(11));
        physical.map(0xa, 0x1000, 0x1000, at(20));
        physical.map(0xb, 0x2000, 0x1000, at(21));
        physical.release(0xa, at(30));
        physical.release(0xb, at(31));
        assert_eq!(Some(physical.unmap(0x1000, 0x2000, at(40))), dead(&[first, second]));
    }

    #[test]
    fn a_handle_may_stand_for_new_memory_while_the_old_is_mapped() {
        let mut physical = Physical::new();
        let (first, _) = physical.create(0xa, at(10));
        physical.map(0xa, 0x1000, 0x1000, at(20));
        physical.release(0xa, at(30));
        let (second, effect) = physical.create(0xa, at(40));
        assert_eq!(effect, Effect::default());
        assert_eq!(physical.release(0xa, at(50)), dead(&[second]));
        assert_eq!(Some(physical.unmap(0x1000, 0, at(60))), dead(&[first]));
    }

    #[test]
    fn an_unmapping_may_be_told_before_the_mapping() {
        let mut physical = Physical::new();
        let (id, _) = physical.create(0xa, at(10));
        assert_eq!(physical.unmap(0x1000, 0x2000, at(30)), Effect::default());
        assert_eq!(physical.map(0xa, 0x2000, 0x1000, at(20)), dead(&[]));
        assert_eq!(physical.release(0xa, at(40)), dead(&[id]));
    }

    #[test]
    fn a_mapping_told_late_revives() {
        let mut physical = Physical::new();
        let (id, _) = physical.create(0xa, at(10));
        assert_eq!(physical.release(0xa, at(30)), dead(&[id]));
        let revived = physical.map(0xa, 0x1000, 0x1000, at(20)).unwrap();
        assert_eq!(revived.revived, Some(id));
        assert_eq!(physical.map(0xa, 0x2000, 0x1000, at(90)), None);
        assert_eq!(Some(physical.unmap(0x1000, 0x1000, at(40))), dead(&[id]));
    }
}
