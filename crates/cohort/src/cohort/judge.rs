//! Judges a job: each signal among ranks that do the same work, then what all signals together say of each rank.

use super::evidence::{self, Evidence, Rule, Usual};
use super::job::{Job, Who};
use super::member::Named;
use super::present::{Present, by_rank, differences, side_by_side};
use super::signal::{Scale, Use};
use super::{Limits, Signal, Verdict, losses, message, spikes};
use gpuwhy_model::Cause;
use std::collections::BTreeMap;

/// Time in collectives: an observation is a fifth of a second or a step, the longer.
pub(super) const SHARES: Rule =
    Rule { need: 18.0, floor: 0.006, cap: 5.5, least: 0.02, fewest: 4, k: 3.0, in_bursts: false };
/// A gauge is a mean over the time between two pushes, so a single long delay shows in it.
pub(super) const GAUGES: Rule = Rule { floor: 0.005, ..SHARES };
/// Clocks and healths of equal GPUs differ more than the time they take.
const STATES: Rule = Rule { floor: 0.015, least: 0.06, ..SHARES };

/// Where all ranks wait for a CPU for much of their time, they differ by so much of it for no reason.
const CROWDED: f64 = 0.1;

/// So many stragglers of a job are named, the surest first: what is said of each is looked up among all its peers.
const NAMED: usize = 64;

/// What speaks against a rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    pub signal: Signal,
    pub evidence: Evidence,
    /// What the excess is a share of, in the signal's unit.
    pub scale: f64,
    pub median: f64,
}

pub(super) fn judge(job: &mut Job, now_ns: u64, limits: &Limits) {
    job.forget(now_ns, limits.forget_ns);
    job.tick(now_ns);
    job.set_threshold(now_ns, limits);
    let roles = job.joiner.roles();
    let (present, all) = Present::of(&job.members, now_ns, limits.stale_ns);
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
            let usual = Usual { k: limits.k, by_chance: by_chance(&present, group) };
            accuse(&mut charges, gauges(&present, group, step, usual));
            accuse(&mut charges, shares(&present, group, step, usual));
            let of_group = losses::more_than_peers(&present, group, usual);
            let mut explained = losses::that_others_wait_for(&present, group, &of_group, step, limits.k);
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
    let mut charges: Vec<(usize, Charge)> = charges.into_iter().collect();
    charges.sort_by(|(_, a), (_, b)| b.evidence.strength().total_cmp(&a.evidence.strength()));
    charges.truncate(NAMED);
    let verdicts: Vec<(Who, Charge, Verdict)> = charges
        .into_iter()
        .map(|(rank, charge)| {
            let peers = groups.iter().find(|group| group.contains(&rank)).map_or(&all, |group| group);
            let verdict = message::straggler(job, &present, rank, peers, charge, step, nranks);
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
        standing.push(message::regression(job, &slower, &standing, all.len(), nranks));
    }
    job.standing = standing;
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

/// By what share of the time ranks of a group are late by chance, where it has fewer CPUs than it needs: who has to share one,
/// and with whom, stays the same for a while.
fn by_chance(present: &Present<'_>, group: &[usize]) -> f64 {
    CROWDED * present.median(group, Signal::Blame(Cause::CpuPreempted)).unwrap_or(0.0)
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

/// What agents tell, push by push: the newest values of all ranks are lined up, then the ones before, and so on.
fn gauges(present: &Present<'_>, group: &[usize], step: Option<f64>, usual: Usual) -> Vec<(usize, Charge)> {
    let has_records = group.iter().any(|rank| present.members[*rank].meter.end() > 0);
    let mut found = Vec::new();
    for signal in present.reported(group, |signal| accuses(signal, has_records)) {
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
            Scale::Step => GAUGES.among(usual),
            Scale::Median | Scale::Plain => Rule { k: usual.k, ..STATES },
        };
        let columns = differences(present.lined_up(group, signal, |value| sign * value), group.len() / 2);
        let weighed = evidence::weigh(&by_rank(&columns, group.len()), rule);
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
    signal.facts().used == Use::Accuses || !has_records && losses::makes_slow(signal)
}

/// What the collectives themselves tell, of ranks that meet in the same communicator.
fn shares(present: &Present<'_>, group: &[usize], step: Option<f64>, usual: Usual) -> Vec<(usize, Charge)> {
    present.meeting(group).flat_map(|ranks| shares_of(present, &ranks, step, SHARES.among(usual))).collect()
}

fn shares_of(present: &Present<'_>, ranks: &[usize], step: Option<f64>, rule: Rule) -> Vec<(usize, Charge)> {
    let mut columns = differences(present.stretches(ranks), ranks.len() / 2);
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

/// Ranks without peers of the same work: how much slower each got, beside how much slower the others got.
fn against_past(present: &Present<'_>, all: &[usize], step: Option<f64>, k: f64) -> Vec<(usize, Charge)> {
    let Some(step) = step.filter(|step| *step > 0.0) else { return Vec::new() };
    let slower = all.iter().map(|rank| {
        let reported = present.newest(*rank, Signal::OwnSeconds);
        let past = present.members[*rank].own_past;
        past.map_or_else(Vec::new, |past| {
            reported.into_iter().map(|reported| (reported - past) / step).collect()
        })
    });
    let columns = differences(side_by_side(slower), all.len() / 2);
    let found = evidence::weigh(&by_rank(&columns, all.len()), Rule { k, ..GAUGES });
    let charge = |rank: usize, evidence: Evidence| {
        let median = present.members[rank].own_past.unwrap_or(0.0);
        (rank, Charge { signal: Signal::OwnSeconds, evidence, scale: step, median })
    };
    found.into_iter().enumerate().filter_map(|(rank, evidence)| Some(charge(rank, evidence?))).collect()
}
