//! A process that got less done than before, measured against the trace's own start.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, seconds};
use crate::evidence::Pace;
use gpuwhy_model::{Cause, Severity, Span, units};

pub(super) const RULE: Rule = Rule {
    name: "slower",
    about: "launches and copies a second that fell to a fraction of what the trace itself shows before, and stayed there",
    causes: &[Cause::Unknown],
    threshold: "the last third of the windows at less than half of the median of the first third, 20 windows at least: shorter dips \
                are stalls and found as such. Low: it is a symptom; its cause is in the other findings",
    refuted_by: "another phase of the program: evaluation, checkpointing, or the end of the input",
    find,
};

const MIN_WINDOWS: usize = 20;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.pids().filter_map(|pid| draft(case, pid)).collect()
}

fn draft(case: &Case<'_>, pid: u32) -> Option<Draft> {
    let mut paces: Vec<&Pace> = case.evidence.paces.iter().filter(|pace| pace.pid == pid).collect();
    paces.sort_by_key(|pace| pace.window_start_ns);
    if paces.len() < MIN_WINDOWS {
        return None;
    }
    let third = paces.len() / 3;
    let (before, after) = (rate(&paces[..third])?, rate(&paces[paces.len() - third..])?);
    if after * 2.0 >= before {
        return None;
    }
    let start = paces[paces.len() - third].window_start_ns;
    let lasted = paces.last()?.window_start_ns + paces.last()?.window_ns - start;
    let lost = (lasted as f64 * (1.0 - after / before)) as u64;
    let mut attribution = Attribution::default();
    attribution.add(Cause::Unknown, lost);
    attribution.note(
        Cause::Unknown,
        format!(
            "{} calls a second at first, {} at last",
            units::count(before as u64),
            units::count(after as u64)
        ),
    );
    Some(Draft {
        severity: Some(Severity::Low),
        title: format!(
            "{} got slower: from {} to {} launches and copies a second for the last {}",
            case.name(pid),
            units::count(before as u64),
            units::count(after as u64),
            seconds(lasted)
        ),
        pid: Some(pid),
        window: Some(Span { start_ns: start, end_ns: start + lasted }),
        fixes: vec![format!(
            "see what changed: `gpuwhy compare --split {}`",
            units::time_of_day(start).trim_end_matches(" UTC")
        )],
        sql: format!(
            "SELECT window_start_ns, sum(count) FROM call_stats WHERE pid = {pid} GROUP BY 1 ORDER BY 1"
        ),
        attribution,
        ..Draft::default()
    })
}

/// Median of calls a second.
fn rate(paces: &[&Pace]) -> Option<f64> {
    let mut rates: Vec<f64> =
        paces.iter().map(|pace| pace.calls as f64 / (pace.window_ns.max(1) as f64 / 1e9)).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().filter(|rate| *rate > 0.0)
}
