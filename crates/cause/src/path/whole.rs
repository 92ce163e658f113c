//! Parts of a path that are one thing to whoever mends it: what several workers do in the same function, what short-lived children
//! of one name do, what is done to a process wherever it is.

use super::{Key, Part, Parts, ProcessPath, Scale};
use crate::case::Case;
use gpuwhy_model::Cause;
use std::collections::BTreeMap;

/// One thing that takes time of a loop.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    /// Of the largest of its parts, or the one that tells most.
    pub(crate) key: Key,
    pub(crate) part: Part,
    /// All of its parts, that one among them.
    pub(crate) members: Vec<Key>,
}

impl Whole {
    /// What all steps together would take less without it.
    pub(crate) fn saves_ns(&self, case: &Case<'_>, path: &ProcessPath, scale: &Scale) -> [u64; 2] {
        let of = |key: &Key, part: &Part| path.saves_ns(scale, key, part, case.pid_of(key.tid));
        if is_done_to_it(self.key.class) || self.members.len() == 1 {
            return of(&self.key, &self.part);
        }
        // Several workers may keep the path at once: what it waits for all of them is at least what it waits for one.
        let of_all = scale.saves_ns(self.key.class, self.part.ns, self.part.samples);
        let of_members = self.members.iter().filter_map(|key| Some(of(key, path.loop_parts.get(key)?)));
        of_members.fold(of_all, |most, saves| if saves[1] > most[1] { saves } else { most })
    }

    /// Its time in other parts of the same path.
    pub(crate) fn ns_in(&self, parts: &Parts) -> u64 {
        self.members.iter().filter_map(|key| parts.get(key)).map(|part| part.ns).sum()
    }
}

/// Its lines do not matter, who does it does.
fn is_done_to_it(class: Cause) -> bool {
    matches!(
        class,
        Cause::CpuPreempted
            | Cause::CpuThrottled
            | Cause::CpuInterrupt
            | Cause::PythonGil
            | Cause::MemFault
            | Cause::MemReclaim
            | Cause::GpuAlloc
            | Cause::GpuColdstart
    )
}

/// What makes parts one thing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing<'a> {
    DoneToIt(Cause),
    /// Of threads other than that of the path: the same function, in threads of the same name.
    Elsewhere(Cause, &'a str, Option<&'a (String, String)>),
    Own(&'a Key),
}

/// `parts`: of the loop, or of another phase.
pub(crate) fn whole_parts(case: &Case<'_>, path: &ProcessPath, parts: &Parts) -> Vec<Whole> {
    let allocating: u64 =
        parts.iter().filter(|(key, _)| key.class == Cause::GpuAlloc).map(|(_, part)| part.ns).sum();
    // Who gives memory back is why it has to be allocated again.
    let frees = |part: &Part| part.frees && part.ns * 5 >= allocating;
    let mut things: BTreeMap<Thing<'_>, Vec<(&Key, &Part)>> = BTreeMap::new();
    for (key, part) in parts {
        let comm = case.evidence.activity.threads.get(&key.tid).map_or("", |thread| thread.comm.as_str());
        let thing = match key.class {
            class if is_done_to_it(class) => Thing::DoneToIt(class),
            class if key.tid != path.root && !comm.is_empty() => {
                Thing::Elsewhere(class, comm, key.function.as_ref())
            }
            _ => Thing::Own(key),
        };
        things.entry(thing).or_default().push((key, part));
    }
    let whole = |parts: Vec<(&Key, &Part)>| {
        // The one with a line stands for all.
        let rank = |key: &Key, part: &Part| (frees(part), key.function.is_some(), part.ns);
        let (key, first) = *parts.iter().max_by_key(|(key, part)| rank(key, part))?;
        let mut part = first.clone();
        for (other, more) in parts.iter().filter(|(other, _)| *other != key) {
            part.absorb(more);
            if !is_done_to_it(key.class) {
                part.others.push((other.tid, more.ns));
            }
        }
        Some(Whole {
            key: key.clone(),
            part,
            members: parts.into_iter().map(|(key, _)| key.clone()).collect(),
        })
    };
    things.into_values().filter_map(whole).collect()
}
