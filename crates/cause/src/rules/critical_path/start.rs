//! What kept a process from its loop: importing, reading, computing before the first step. A start is no alarm of the loop,
//! so these findings are low; loading modules and first launches are those of the rules about calls.

use super::culprits::{name_culprits, say_way};
use super::{all_of, sql};
use crate::bills::Bills;
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::path::{ProcessPath, Whole, describe, whole_parts};
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity, Span};

/// Shorter parts of a start are in the tree.
const MIN_NS: u64 = 500_000_000;
const MIN_SHARE_PCT: f64 = 15.0;
const MAX_FINDINGS: usize = 3;

pub(super) fn of_start(case: &Case<'_>, path: &ProcessPath) -> Vec<Draft> {
    let Some(window) = path.phases.start else { return Vec::new() };
    let is_of_calls = |class: Cause| {
        matches!(class, Cause::GpuColdstart | Cause::GpuWait | Cause::GpuAlloc | Cause::CopyPcie)
    };
    let mut parts = whole_parts(case, path, &path.start_parts);
    parts.retain(|Whole { key, part, .. }| {
        !(is_of_calls(key.class) || matches!(key.class, Cause::LaunchBound | Cause::Unknown))
            && part.ns >= MIN_NS
            && percent(part.ns, window.ns()) >= MIN_SHARE_PCT
    });
    parts.sort_by_key(|whole| std::cmp::Reverse(whole.part.ns));
    parts.truncate(MAX_FINDINGS);
    parts.iter().map(|whole| draft(case, path, window, whole)).collect()
}

fn draft(case: &Case<'_>, path: &ProcessPath, window: Span, whole: &Whole) -> Draft {
    let Whole { key, part, .. } = whole;
    let pid = path.pid;
    let mut bills = Bills::default();
    bills.add(key.class, part.ns);
    name_culprits(case, path, key, part, &mut bills);
    say_way(case, path, key, &mut bills);
    let place = place_of_stack(case, part.stack_id);
    let subject = match key.tid == pid {
        true => format!("{} is", case.name(pid)),
        false => format!("{} waits for {}:", case.name(pid), all_of(case, key, part)),
    };
    let what = format!("{}{}", describe(case, key, part), at(&place));
    let (took, all) = (seconds(part.ns), seconds(window.ns()));
    let share = percent(part.ns, window.ns());
    Draft {
        severity: Some(Severity::Low),
        title: format!("at its start: {subject} {what}: {took} of {all} before the loop ({share:.0}%)"),
        pid: Some(pid),
        window: Some(window),
        saves_ms: Some([part.ns as f64 / 1e6; 2]),
        explained_pct: (key.class == Cause::CpuSelf && !(place.python.is_empty() && place.native.is_empty()))
            .then_some(100.0),
        phase: Some("start"),
        fixes: fixes(case, pid, &bills),
        sql: sql(key),
        bills,
        place,
        ..Draft::default()
    }
}
