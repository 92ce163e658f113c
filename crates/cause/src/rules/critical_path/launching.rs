//! Loops that do nothing but launch.

use super::BUSY_PCT;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::path::{Part, ProcessPath, Scale, who};
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity};
use std::collections::BTreeMap;

/// Where launching has this share, and the GPU is not busy, the host is the limit.
const LAUNCH_PCT: f64 = 50.0;

/// What remains when nothing else is on the path: launches, and the Python between them.
pub(super) fn launching(case: &Case<'_>, path: &ProcessPath, scale: Scale) -> Option<Draft> {
    let mut threads: BTreeMap<u32, &Part> = BTreeMap::new();
    for (key, part) in path.loop_parts.iter().filter(|(key, _)| key.class == Cause::LaunchBound) {
        threads.insert(key.tid, part);
    }
    let ns: u64 = threads.values().map(|part| part.ns).sum();
    let share = percent(ns, scale.whole_ns);
    if share < LAUNCH_PCT || path.busy_pct.is_some_and(|pct| pct >= BUSY_PCT) {
        return None;
    }
    let mut attribution = Attribution::default();
    attribution.add(Cause::LaunchBound, ns);
    for (tid, part) in &threads {
        attribution.note(Cause::LaunchBound, format!("{} in {}", seconds(part.ns), who(case, *tid)));
    }
    if let Some(pct) = path.busy_pct {
        attribution
            .note(Cause::LaunchBound, format!("the GPU was busy {pct:.0}% of the loop by its own counter"));
    }
    let most = threads.values().filter(|part| !place_of_stack(case, part.stack_id).python.is_empty());
    let place = place_of_stack(case, most.max_by_key(|part| part.ns).and_then(|part| part.stack_id));
    let op = case.main_op(path.pid, gpuwhy_model::Family::Launch).map(|op| op.sums.op.clone());
    Some(Draft {
        severity: Some(Severity::Low),
        title: format!(
            "{} spends {share:.0}% of its loop on launches and the Python between them{}: the host is the limit, not the GPU",
            case.name(path.pid),
            at(&place)
        ),
        op,
        pid: Some(path.pid),
        window: Some(path.phases.repeats),
        by_design: Some("launch bound"),
        of_ns: Some(scale.whole_ns),
        fixes: fixes(case, path.pid, &attribution),
        sql: format!("SELECT * FROM gpu_time WHERE pid = {}", path.pid),
        attribution,
        place,
        ..Draft::default()
    })
}
