//! What the waits of one thread for another come to, from those that were recorded one by one: the shorter ones between the same
//! two are alike.

use super::parts::{Divider, Key, clipped};
use super::walk::{Hop, Segment, Walk};
use gpuwhy_model::Span;
use std::collections::BTreeMap;

/// A share of such waits, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    pub(crate) key: Key,
    pub(crate) share: f64,
    pub(crate) stack_id: Option<i64>,
}

/// By who waited and for whom; the shares of a pair sum to 1.
pub(crate) type Handed = BTreeMap<(u32, u32), Vec<Share>>;

pub(crate) fn handed(divider: &Divider<'_>, walked: &Walk, span: Span) -> Handed {
    // Latest first, as the path is.
    let mut paths: BTreeMap<(u32, u32), Vec<Segment>> = BTreeMap::new();
    for Hop { wait } in &walked.hops {
        let of_wait =
            Span { start_ns: wait.start_ns.max(span.start_ns), end_ns: wait.end_ns.min(span.end_ns) };
        if of_wait.end_ns > of_wait.start_ns {
            paths.entry((wait.tid, wait.by_tid)).or_default().extend(clipped(&walked.segments, of_wait));
        }
    }
    let shares = |path: Vec<Segment>| {
        let parts = divider.parts(&path, span);
        let whole: u64 = parts.values().map(|part| part.ns).sum();
        let share = |ns: u64| ns as f64 / whole.max(1) as f64;
        parts
            .into_iter()
            .map(|(key, part)| Share { key, share: share(part.ns), stack_id: part.stack_id })
            .collect()
    };
    paths.into_iter().map(|(pair, path)| (pair, shares(path))).collect()
}
