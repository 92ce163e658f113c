//! What a process did once: what kept it from its loop (importing, reading, computing before the first step), and what it did
//! when that was over. Neither is an alarm of the loop, so these findings are low; loading modules and first launches are those
//! of the rules about calls.

use super::culprits::{add_way, name_culprits};
use super::{explained_pct, own_turns, sql, subject};
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::path::{Parts, ProcessPath, Whole, describe, whole_parts};
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity, Span};

/// Smaller parts are in the tree.
const MIN_SHARE_PCT: f64 = 15.0;
const MAX_FINDINGS: usize = 3;

/// A phase, and how long a part of it must be to be worth a finding.
struct Phase<'a> {
    name: &'static str,
    about: &'static str,
    beside: &'static str,
    window: Span,
    parts: &'a Parts,
    min_ns: u64,
}

pub(super) fn of_start_and_end(case: &Case<'_>, path: &ProcessPath) -> Vec<Draft> {
    let start = path.phases.start.map(|window| Phase {
        name: "start",
        about: "at its start",
        beside: "before the loop",
        window,
        parts: &path.start_parts,
        min_ns: 500_000_000,
    });
    // An interpreter that ends takes a while to give everything back.
    let end = path.phases.end.map(|window| Phase {
        name: "end",
        about: "at its end",
        beside: "behind the loop",
        window,
        parts: &path.end_parts,
        min_ns: 1_000_000_000,
    });
    start.iter().chain(&end).flat_map(|phase| of_phase(case, path, phase)).collect()
}

fn of_phase(case: &Case<'_>, path: &ProcessPath, phase: &Phase<'_>) -> Vec<Draft> {
    let is_of_calls = |class: Cause| {
        matches!(class, Cause::GpuColdstart | Cause::GpuWait | Cause::GpuAlloc | Cause::CopyPcie)
    };
    let mut parts = whole_parts(case, path, phase.parts);
    parts.retain(|Whole { key, part, .. }| {
        !(is_of_calls(key.class) || matches!(key.class, Cause::LaunchBound | Cause::Unknown))
            && part.ns.saturating_sub(own_turns(case, path.pid, key, part)) >= phase.min_ns
            && percent(part.ns, phase.window.ns()) >= MIN_SHARE_PCT
    });
    parts.sort_by_key(|whole| std::cmp::Reverse(whole.part.ns));
    parts.truncate(MAX_FINDINGS);
    parts.iter().map(|whole| draft(case, path, phase, whole)).collect()
}

fn draft(case: &Case<'_>, path: &ProcessPath, phase: &Phase<'_>, whole: &Whole) -> Draft {
    let Whole { key, part, .. } = whole;
    let window = phase.window;
    let pid = path.pid;
    let mut attribution = Attribution::default();
    attribution.add(key.class, part.ns);
    name_culprits(case, path, key, part, &mut attribution);
    add_way(case, path, key, &mut attribution);
    let place = place_of_stack(case, part.stack_id);
    let subject = subject(case, pid, key, part);
    let what = format!("{}{}", describe(case, key, part), at(&place));
    let (took, all) = (seconds(part.ns), seconds(window.ns()));
    let share = percent(part.ns, window.ns());
    Draft {
        severity: Some(Severity::Low),
        title: format!("{}: {subject} {what}: {took} of {all} {} ({share:.0}%)", phase.about, phase.beside),
        pid: Some(pid),
        window: Some(window),
        saves_ms: Some([part.ns as f64 / 1e6; 2]),
        explained_pct: explained_pct(key, &place),
        phase: Some(phase.name),
        of_ns: Some(window.ns()),
        fixes: fixes(case, pid, &attribution),
        sql: sql(key),
        attribution,
        place,
        ..Draft::default()
    }
}
