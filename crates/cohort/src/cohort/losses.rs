//! What ranks lose their time to. On a busy host everybody is late by turns, and who is late most shows after a long time only;
//! what each lost its time to shows at once. But not every loss is one that others wait for.

use super::Signal;
use super::evidence::{self, Evidence, Rule, Usual};
use super::judge::{Charge, GAUGES, SHARES};
use super::present::{Present, by_rank, differences};
use crate::collectives::STRETCH_NS;
use gpuwhy_model::Cause;

/// What a rank loses to a cause is told by its own agent to the nanosecond, so little of it is noise.
const CAUSES: Rule = Rule { fewest: 2, in_bursts: true, ..GAUGES };
/// Nobody sleeps by chance.
const SLEEPS: Rule = Rule { floor: 0.004, cap: 7.0, ..CAUSES };
/// Of a rank that loses time to something its peers do not, it is enough that it seems to keep them waiting.
const HINTS: Rule = Rule { need: 2.0, ..SHARES };
/// Pushes after which what agents add up is a hint: one long stall is in two of them.
const REPORTED_OFTEN: usize = 3;
/// Stretches of a second at most.
const STRETCHES_A_SECOND: usize = (1e9 / STRETCH_NS) as usize;
/// Stretches until it is sure that a rank loses more time than others: agents push once a second at most.
pub(super) const SURE_AFTER: usize = CAUSES.fewest * STRETCHES_A_SECOND;
/// Where more of a group lose time to something, the others are the exception.
const MAX: usize = 16;

/// A cause that makes a rank slow, and does not come of its being so.
pub(super) fn makes_slow(signal: Signal) -> bool {
    matches!(signal, Signal::Blame(cause) if cause.is_taken() || cause == Cause::SelfSleep)
}

/// Ranks that lose more time to something than their peers do, those of which it is surest first.
pub(super) fn more_than_peers(present: &Present<'_>, group: &[usize], usual: Usual) -> Vec<(usize, Charge)> {
    let mut found = Vec::new();
    for signal in present.reported(group, makes_slow) {
        let Some(median) = present.median(group, signal) else { continue };
        let columns = differences(present.lined_up(group, signal, |value| value), group.len() / 2);
        let rule = match signal {
            Signal::Blame(Cause::SelfSleep) => Rule { k: usual.k, ..SLEEPS },
            Signal::Blame(Cause::CpuPreempted) => CAUSES.among(usual),
            _ => Rule { k: usual.k, ..CAUSES },
        };
        let weighed = evidence::weigh(&by_rank(&columns, group.len()), rule);
        for (rank, evidence) in group.iter().zip(weighed) {
            let evidence = evidence.filter(|evidence| evidence.excess >= evidence.threshold);
            found.extend(evidence.map(|evidence| (*rank, Charge { signal, evidence, scale: 1.0, median })));
        }
    }
    found.sort_by(|(_, a), (_, b)| b.evidence.score.total_cmp(&a.evidence.score));
    found.truncate(MAX);
    found
}

/// How late ranks are.
struct View {
    ranks: Vec<usize>,
    /// Of each of them, the newest first.
    series: Vec<Vec<f64>>,
    /// Of a second at most.
    observations: usize,
    fewest: usize,
}

/// By the collectives themselves, and as agents add it up.
fn views(present: &Present<'_>, group: &[usize], step: Option<f64>) -> Vec<View> {
    let mut views: Vec<View> = Vec::new();
    for ranks in present.meeting(group) {
        let series = by_rank(&differences(present.stretches(&ranks), ranks.len() / 2), ranks.len());
        views.push(View { ranks, series, observations: STRETCHES_A_SECOND, fewest: 8 });
    }
    if let Some(step) = step.filter(|step| *step > 0.0) {
        let own = present.lined_up(group, Signal::OwnSeconds, |value| value / step);
        let series = by_rank(&differences(own, group.len() / 2), group.len());
        views.push(View { ranks: group.to_vec(), series, observations: 1, fewest: REPORTED_OFTEN });
    }
    views
}

/// Those of them that seem to keep their peers waiting, in all the time since.
pub(super) fn that_others_wait_for(
    present: &Present<'_>,
    group: &[usize],
    losing: &[(usize, Charge)],
    step: Option<f64>,
    k: f64,
) -> Vec<(usize, Charge)> {
    if losing.is_empty() {
        return Vec::new();
    }
    let views = views(present, group, step);
    let seems_late = |(rank, charge): &(usize, Charge)| {
        let since = present.members[*rank].stretches_losing(charge.signal);
        let hints = views.iter().filter_map(|view| {
            let at = view.ranks.iter().position(|seen| seen == rank)?;
            let fewest = (since * view.observations / STRETCHES_A_SECOND).max(view.fewest);
            evidence::weigh(&view.series, Rule { k, fewest, ..HINTS })[at]
        });
        // What nobody waits for half as long is no matter to them.
        let hints = hints.filter(|late| late.excess >= charge.evidence.excess / 2.0);
        let late = hints.map(|late| late.score).reduce(f64::max)?;
        let evidence = Evidence { score: charge.evidence.score + late, ..charge.evidence };
        Some((*rank, Charge { evidence, ..*charge }))
    };
    losing.iter().filter_map(seems_late).collect()
}
