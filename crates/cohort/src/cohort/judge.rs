//! Judges a job: each signal among ranks that do the same work, then what all signals together say of each rank.

use super::evidence::{self, Evidence, Rule};
use super::job::{Job, Who};
use super::member::{Member, Named};
use super::meter::STRETCHES;
use super::signal::{Scale, Use};
use super::{Limits, Signal, Verdict, spikes, telling};
use crate::collectives::Anchor;
use crate::robust::median;
use gpuwhy_model::Cause;
use std::collections::{BTreeMap, BTreeSet};

/// Time in collectives: an observation is a fifth of a second or a step, the longer.
const SHARES: Rule = Rule { need: 18.0, floor: 0.006, cap: 5.5, least: 0.02, fewest: 4, k: 3.0 };
/// A gauge is a mean over the time between two pushes, so a single long delay shows in it.
const GAUGES: Rule = Rule { need: 18.0, floor: 0.005, cap: 5.5, least: 0.02, fewest: 4, k: 3.0 };
/// Clocks and healths of equal GPUs differ more than the time they take.
const STATES: Rule = Rule { need: 18.0, floor: 0.015, cap: 5.5, least: 0.06, fewest: 4, k: 3.0 };
/// What a rank loses to a cause is told by its own agent to the nanosecond, so little of it is noise.
const CAUSES: Rule = Rule { fewest: 3, ..GAUGES };
/// Nobody sleeps by chance.
const SLEEPS: Rule = Rule { floor: 0.004, cap: 7.0, ..CAUSES };
/// Of a rank that loses time to something its peers do not, it is enough that it seems to keep them waiting.
const HINTS: Rule = Rule { need: 2.0, fewest: 8, ..SHARES };

/// What speaks against a rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    pub signal: Signal,
    pub evidence: Evidence,
    /// What the excess is a share of, in the signal's unit.
    pub scale: f64,
    pub median: f64,
}

/// The ranks heard of lately.
pub(super) struct Present<'a> {
    pub whos: Vec<&'a Who>,
    pub members: Vec<&'a Member>,
    pub now_ns: u64,
    pub stale_ns: u64,
}

impl Present<'_> {
    pub(super) fn recent(&self, rank: usize, signal: Signal) -> Option<f64> {
        self.members[rank].recent(signal, self.now_ns, self.stale_ns)
    }

    pub(super) fn recents(&self, ranks: &[usize], signal: Signal) -> Vec<(usize, f64)> {
        ranks.iter().filter_map(|rank| Some((*rank, self.recent(*rank, signal)?))).collect()
    }

    pub(super) fn median(&self, ranks: &[usize], signal: Signal) -> Option<f64> {
        median(&mut self.recents(ranks, signal).into_iter().map(|(_, value)| value).collect::<Vec<f64>>())
    }
}

pub(super) fn judge(job: &mut Job, now_ns: u64, limits: &Limits) {
    job.tick(now_ns);
    job.set_threshold(now_ns, limits);
    let roles = job.joiner.roles();
    let (present, all) = present(&job.members, now_ns, limits.stale_ns);
    let quorum = job.has_quorum(all.len());
    let step = present.median(&all, Signal::StepSeconds);
    if let Some(step) = step.filter(|_| quorum) {
        job.slower.see(now_ns, step);
    }
    let mut charges: BTreeMap<usize, Charge> = BTreeMap::new();
    let mut losses: Vec<(usize, Charge)> = Vec::new();
    let groups = groups(&present, roles.as_ref());
    if quorum {
        for group in groups.iter().filter(|group| group.len() >= 3) {
            accuse(&mut charges, gauges(&present, group, step, limits.k));
            accuse(&mut charges, shares(&present, group, step, limits.k));
            let of_group = losing(&present, group, limits.k);
            let mut explained = explained(&present, group, &of_group, step, limits.k);
            losses.extend(of_group);
            // What it costs its peers says more, once it is sure.
            explained.retain(|(rank, _)| charges.get(rank).is_none_or(|known| !known.evidence.names()));
            accuse(&mut charges, explained);
        }
        let alone: Vec<usize> = groups.iter().filter(|group| group.len() < 3).flatten().copied().collect();
        if !alone.is_empty() {
            let found = against_past(&present, &all, step, limits.k);
            accuse(&mut charges, found.into_iter().filter(|(rank, _)| alone.contains(rank)).collect());
        }
    }
    let nranks = (job.nranks as usize).max(all.len());
    let verdicts: Vec<(Who, Charge, Verdict)> = charges
        .into_iter()
        .map(|(rank, charge)| {
            let peers = groups.iter().find(|group| group.contains(&rank)).map_or(&all, |group| group);
            let verdict = telling::straggler(job, &present, rank, peers, charge, step, nranks);
            (present.whos[rank].clone(), charge, verdict)
        })
        .collect();
    let mut losing: BTreeMap<Who, Vec<Signal>> = BTreeMap::new();
    for (rank, charge) in losses {
        losing.entry(present.whos[rank].clone()).or_default().push(charge.signal);
    }
    for (who, member) in &mut job.members {
        member.note_losses(losing.remove(who).unwrap_or_default());
    }
    for (who, charge, verdict) in verdicts {
        let Some(member) = job.members.get_mut(&who) else { continue };
        match &mut member.named {
            Some(named) if charge.evidence.holds() => {
                *named = Named {
                    since_ns: named.since_ns,
                    last_ns: now_ns,
                    verdict: Verdict { since_ns: named.since_ns, ..verdict },
                };
            }
            None if charge.evidence.names() => {
                member.named = Some(Named { since_ns: now_ns, last_ns: now_ns, verdict });
            }
            _ => {}
        }
    }
    for member in job.members.values_mut() {
        member.named.take_if(|named| now_ns.saturating_sub(named.last_ns) > limits.hold_ns);
    }
    let mut standing: Vec<Verdict> = job
        .members
        .values()
        .filter_map(|member| member.named.as_ref())
        .map(|named| named.verdict.clone())
        .collect();
    standing.sort_by(|a, b| b.excess_share.total_cmp(&a.excess_share));
    if let Some(slower) = job.slower.slower() {
        standing.push(telling::regression(job, &slower, &standing, all.len(), nranks));
    }
    job.standing = standing;
}

fn present(members: &BTreeMap<Who, Member>, now_ns: u64, stale_ns: u64) -> (Present<'_>, Vec<usize>) {
    let fresh = members.iter().filter(|(_, member)| now_ns.saturating_sub(member.seen_ns) <= stale_ns);
    let (whos, members): (Vec<_>, Vec<_>) = fresh.unzip();
    let all = (0..whos.len()).collect();
    (Present { whos, members, now_ns, stale_ns }, all)
}

/// Ranks that do the same work.
fn groups(present: &Present<'_>, roles: Option<&BTreeMap<u32, u32>>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for (at, who) in present.whos.iter().enumerate() {
        let role = roles.and_then(|roles| roles.get(&who.rank()?).copied());
        groups.entry(role).or_default().push(at);
    }
    groups.into_values().collect()
}

/// The strongest against each rank.
fn accuse(charges: &mut BTreeMap<usize, Charge>, found: Vec<(usize, Charge)>) {
    for (rank, charge) in found {
        let strength = |charge: &Charge| (charge.evidence.names(), charge.evidence.strength());
        match charges.get(&rank) {
            Some(known) if strength(known) >= strength(&charge) => {}
            _ => {
                charges.insert(rank, charge);
            }
        }
    }
}

/// Differences from the column's median, of columns that at least three have a value in.
fn differences(columns: Vec<Vec<(usize, f64)>>, fewest: usize) -> Vec<Vec<(usize, f64)>> {
    columns
        .into_iter()
        .filter(|column| column.len() >= fewest.max(3))
        .filter_map(|column| {
            let middle = median(&mut column.iter().map(|(_, value)| *value).collect::<Vec<f64>>())?;
            Some(column.into_iter().map(|(rank, value)| (rank, value - middle)).collect())
        })
        .collect()
}

fn by_rank(columns: &[Vec<(usize, f64)>], ranks: usize) -> Vec<Vec<f64>> {
    let mut series = vec![Vec::new(); ranks];
    for (rank, difference) in columns.iter().flatten() {
        series[*rank].push(*difference);
    }
    series
}

/// The signals that some of them have told.
fn told(present: &Present<'_>, group: &[usize], is_wanted: impl Fn(Signal) -> bool) -> BTreeSet<Signal> {
    let all = group.iter().flat_map(|rank| present.members[*rank].signals.keys().copied());
    all.filter(|signal| is_wanted(*signal)).collect()
}

/// What agents tell, push by push: the newest values of all ranks are lined up, then the ones before, and so on.
fn gauges(present: &Present<'_>, group: &[usize], step: Option<f64>, k: f64) -> Vec<(usize, Charge)> {
    let has_records = group.iter().any(|rank| present.members[*rank].meter.end() > 0);
    let mut found = Vec::new();
    for signal in told(present, group, |signal| accuses(signal, has_records)) {
        let facts = signal.facts();
        let Some(middle) = present.median(group, signal) else { continue };
        let scale = match facts.scale {
            Scale::Step => step.unwrap_or(middle),
            Scale::Median => middle,
            Scale::Plain => 1.0,
        };
        if !(scale.is_finite() && scale > 0.0) {
            continue;
        }
        let sign = if facts.higher_is_worse { 1.0 } else { -1.0 } / scale;
        let rule = match facts.scale {
            Scale::Step => GAUGES,
            Scale::Median | Scale::Plain => STATES,
        };
        let columns = differences(lined_up(present, group, signal, |value| sign * value), group.len() / 2);
        let weighed = evidence::weigh(&by_rank(&columns, group.len()), Rule { k, ..rule });
        // Without collectives nobody knows who does the same work: many that differ alike are a kind of their own.
        let alike = weighed.iter().flatten().filter(|evidence| evidence.holds()).count();
        if !has_records && alike > (group.len() / 8).max(2) {
            continue;
        }
        for (at, evidence) in weighed.into_iter().enumerate() {
            let Some(evidence) = evidence else { continue };
            let scale = if facts.higher_is_worse { scale } else { -scale };
            found.push((group[at], Charge { signal, evidence, scale, median: middle }));
        }
    }
    found
}

/// Where collectives are told, they tell what a rank costs the others; else what it loses time to must do.
fn accuses(signal: Signal, has_records: bool) -> bool {
    signal.facts().used == Use::Accuses || !has_records && explains(signal)
}

/// A cause that makes a rank slow, and does not come of its being so.
fn explains(signal: Signal) -> bool {
    matches!(signal, Signal::Blame(cause) if cause.is_taken() || cause == Cause::SelfSleep)
}

/// Ranks that lose more time to something than their peers do.
fn losing(present: &Present<'_>, group: &[usize], k: f64) -> Vec<(usize, Charge)> {
    let mut found = Vec::new();
    for signal in told(present, group, explains) {
        let Some(median) = present.median(group, signal) else { continue };
        let columns = differences(lined_up(present, group, signal, |value| value), group.len() / 2);
        let rule = if signal == Signal::Blame(Cause::SelfSleep) { SLEEPS } else { CAUSES };
        let weighed = evidence::weigh(&by_rank(&columns, group.len()), Rule { k, ..rule });
        for (rank, evidence) in group.iter().zip(weighed) {
            let evidence = evidence.filter(|evidence| evidence.excess >= evidence.threshold);
            found.extend(evidence.map(|evidence| (*rank, Charge { signal, evidence, scale: 1.0, median })));
        }
    }
    found
}

/// Those of them that seem to keep their peers waiting, in all the time since. On a busy host everybody is late by turns, and
/// who is late most shows after a long time only; what each lost its time to shows at once.
fn explained(
    present: &Present<'_>,
    group: &[usize],
    losing: &[(usize, Charge)],
    step: Option<f64>,
    k: f64,
) -> Vec<(usize, Charge)> {
    if losing.is_empty() {
        return Vec::new();
    }
    // By the collectives themselves, and as its agent adds it up: (who, how late, observations a second at most).
    let mut views: Vec<(Vec<usize>, Vec<Vec<f64>>, usize)> = Vec::new();
    for ranks in meeting(present, group) {
        let series = by_rank(&differences(stretches(present, &ranks), ranks.len() / 2), ranks.len());
        views.push((ranks, series, 5));
    }
    if let Some(step) = step.filter(|step| *step > 0.0) {
        let own = lined_up(present, group, Signal::OwnSeconds, |value| value / step);
        views.push((group.to_vec(), by_rank(&differences(own, group.len() / 2), group.len()), 1));
    }
    let seems_late = |(rank, charge): &(usize, Charge)| {
        let since = present.members[*rank].stretches_losing(charge.signal);
        let hints = views.iter().filter_map(|(ranks, series, rate)| {
            let at = ranks.iter().position(|met| met == rank)?;
            let fewest = (since * rate / 5).max(if *rate == 1 { CAUSES.fewest } else { HINTS.fewest });
            evidence::weigh(series, Rule { k, fewest, ..HINTS })[at]
        });
        // What nobody waits for half as long is no matter to them.
        let hints = hints.filter(|late| late.excess >= charge.evidence.excess / 2.0);
        let late = hints.map(|late| late.score).reduce(f64::max)?;
        let evidence = Evidence { score: charge.evidence.score + late, ..charge.evidence };
        Some((*rank, Charge { evidence, ..*charge }))
    };
    losing.iter().filter_map(seems_late).collect()
}

/// (place in the group, value), the newest column first.
fn lined_up(
    present: &Present<'_>,
    group: &[usize],
    signal: Signal,
    value: impl Fn(f64) -> f64,
) -> Vec<Vec<(usize, f64)>> {
    let mut columns: Vec<Vec<(usize, f64)>> = Vec::new();
    for (at, rank) in group.iter().enumerate() {
        let told = present.members[*rank].newest(signal, present.now_ns, present.stale_ns);
        for (column, told) in told.into_iter().enumerate() {
            if columns.len() <= column {
                columns.push(Vec::new());
            }
            columns[column].push((at, value(told)));
        }
    }
    columns
}

/// What the collectives themselves tell, of ranks that meet in the same communicator.
fn shares(present: &Present<'_>, group: &[usize], step: Option<f64>, k: f64) -> Vec<(usize, Charge)> {
    meeting(present, group).flat_map(|ranks| shares_of(present, &ranks, step, k)).collect()
}

/// Those of a group that meet each other.
fn meeting(present: &Present<'_>, group: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let mut meeting: BTreeMap<Anchor, Vec<usize>> = BTreeMap::new();
    for rank in group {
        if let Some(anchor) = present.members[*rank].meter.anchor() {
            meeting.entry(anchor).or_default().push(*rank);
        }
    }
    meeting.into_values().filter(|ranks| ranks.len() >= 3)
}

fn shares_of(present: &Present<'_>, ranks: &[usize], step: Option<f64>, k: f64) -> Vec<(usize, Charge)> {
    let mut columns = differences(stretches(present, ranks), ranks.len() / 2);
    let rule = Rule { k, ..SHARES };
    let lasting = evidence::weigh(&by_rank(&columns, ranks.len()), rule);
    columns.reverse();
    let known: Vec<bool> = lasting.iter().map(|found| found.is_some_and(|found| found.names())).collect();
    let now_and_then = spikes::weigh(&columns, &known, rule.least);
    let scale = step.unwrap_or(1.0);
    let charge = |evidence| Charge { signal: Signal::LateSeconds, evidence, scale, median: 0.0 };
    let mut found = Vec::new();
    for (at, rank) in ranks.iter().enumerate() {
        let both = [lasting[at], now_and_then[at]].into_iter().flatten();
        found.extend(both.map(|evidence| (*rank, charge(evidence))));
    }
    found
}

/// (place in the group, own share) by stretch, the newest first.
fn stretches(present: &Present<'_>, ranks: &[usize]) -> Vec<Vec<(usize, f64)>> {
    let meters: Vec<_> = ranks.iter().map(|rank| &present.members[*rank].meter).collect();
    let end = meters.iter().map(|meter| meter.end()).max().unwrap_or(0);
    let own = |stretch: u64| {
        let each = meters.iter().enumerate();
        each.filter_map(|(at, meter)| Some((at, meter.own(stretch)?))).collect()
    };
    (end.saturating_sub(STRETCHES as u64)..end).rev().map(own).collect()
}

/// Ranks without peers of the same work: how much slower each got, beside how much slower the others got.
fn against_past(present: &Present<'_>, all: &[usize], step: Option<f64>, k: f64) -> Vec<(usize, Charge)> {
    let Some(step) = step.filter(|step| *step > 0.0) else { return Vec::new() };
    let mut columns: Vec<Vec<(usize, f64)>> = Vec::new();
    for rank in all {
        let member = present.members[*rank];
        let (Some(past), Some(series)) = (member.own_past, member.signals.get(&Signal::OwnSeconds)) else {
            continue;
        };
        for (column, told) in series.newest(present.now_ns, present.stale_ns).enumerate() {
            if columns.len() <= column {
                columns.push(Vec::new());
            }
            columns[column].push((*rank, (told - past) / step));
        }
    }
    let columns = differences(columns, all.len() / 2);
    let found = evidence::weigh(&by_rank(&columns, all.len()), Rule { k, ..GAUGES });
    let charge = |rank: usize, evidence: Evidence| {
        let median = present.members[rank].own_past.unwrap_or(0.0);
        (rank, Charge { signal: Signal::OwnSeconds, evidence, scale: step, median })
    };
    found.into_iter().enumerate().filter_map(|(rank, evidence)| Some(charge(rank, evidence?))).collect()
}
