//! When a finding lost its time.

use crate::evidence::{Evidence, LostAt};
use gpuwhy_model::{Finding, Span};

/// Of a finding's excess, so much must be in calls that took longer than usual to tell by them when it was. Else the
/// half seconds of its causes tell.
const MIN_SHARE_IN_CALLS: f64 = 0.5;

/// How well it must be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// To the call, if most of it is in calls that were kept.
    Finely,
    /// All of it, to the half second.
    Wholly,
}

/// Nothing where only its window is known.
pub(crate) fn losses_of<'a>(evidence: &'a Evidence, finding: &Finding, known: Known) -> Vec<&'a LostAt> {
    let Some(pid) = finding.pid else { return Vec::new() };
    let own: Vec<&LostAt> =
        evidence.losses.iter().filter(|lost| lost.pid == pid && lost.op == finding.op).collect();
    let calls: Vec<&LostAt> = own.iter().copied().filter(|lost| lost.cause.is_none()).collect();
    let in_calls: u64 = calls.iter().map(|lost| lost.ns).sum();
    let classes: Vec<_> = finding.causes.iter().map(|share| share.class).collect();
    let attributed: Vec<&LostAt> =
        own.into_iter().filter(|lost| lost.cause.is_some_and(|cause| classes.contains(&cause))).collect();
    let is_enough =
        known == Known::Finely && in_calls as f64 / 1e6 >= MIN_SHARE_IN_CALLS * finding.impact.excess_ms;
    if !calls.is_empty() && (is_enough || attributed.is_empty()) { calls } else { attributed }
}

/// How much of a loss lies in a time, if it was lost evenly.
pub(crate) fn within(lost: &LostAt, span: &Span) -> f64 {
    let length = lost.end_ns.saturating_sub(lost.start_ns).max(1);
    let common = lost.end_ns.min(span.end_ns).saturating_sub(lost.start_ns.max(span.start_ns));
    lost.ns as f64 * common as f64 / length as f64
}

/// Whether a process is another, or was started by it or by one that it started.
pub(crate) fn descends(evidence: &Evidence, pid: u32, ancestor: u32) -> bool {
    const DEEPEST: usize = 16;
    let parent = |pid: u32| {
        evidence.processes.iter().rfind(|process| process.pid == pid).map(|process| process.parent_pid)
    };
    let mut line = std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1));
    line.by_ref().take(DEEPEST).any(|pid| pid == ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_spread_evenly_over_its_time() {
        let lost = LostAt { start_ns: 100, end_ns: 200, ns: 50, ..LostAt::default() };
        let within = |start_ns, end_ns| within(&lost, &Span { start_ns, end_ns });
        assert_eq!((within(0, 300), within(150, 300), within(120, 130)), (50.0, 25.0, 5.0));
        assert_eq!((within(0, 100), within(200, 300)), (0.0, 0.0));
    }
}
