//! A simulated job, judged every second: who was named and when.

use super::agents::{Agents, Push};
use super::machine::Machine;
use super::plan::Plan;
use crate::collectives::{Autopsy, Clock, CommunicatorReport};
use crate::{Cohorts, Sample, Source, Verdict, VerdictKind};
use std::collections::BTreeMap;

/// What was said of a job, and when, in seconds of the simulation.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// When each rank was first named.
    pub named: BTreeMap<u32, f64>,
    /// What was said then.
    pub first: BTreeMap<u32, Verdict>,
    /// In how many judgements each was named.
    pub judgements: BTreeMap<u32, usize>,
    /// Who is named at the end.
    pub standing: Vec<Verdict>,
    pub slower: Option<(f64, Verdict)>,
    pub hang: Option<(f64, Autopsy)>,
    pub clocks: Vec<Clock>,
    /// By node, how much it truly is ahead at the end.
    pub truly_ahead_ns: Vec<i64>,
    pub communicators: Vec<CommunicatorReport>,
    /// When the job came to a stop.
    pub stopped: Option<f64>,
}

/// Runs a plan for so long, in simulated time.
pub fn trial(plan: &Plan, seconds: f64) -> Outcome {
    let (mut machine, mut agents) = (Machine::new(plan), Agents::new(plan));
    let mut cohorts = Cohorts::default();
    let mut outcome = Outcome::default();
    let mut at = 0.0;
    while at < seconds {
        at += 1.0;
        machine.run_to(at);
        for push in agents.pushes_to(&mut machine, at) {
            take(&mut cohorts, plan, &push);
        }
        let now_ns = plan.fleet_ns(at) + 60_000_000;
        note(&mut outcome, cohorts.judge(now_ns), at);
        if outcome.hang.is_none()
            && let Some(autopsy) = cohorts.autopsies("sim", Some("job"), now_ns).into_iter().next()
        {
            outcome.hang = Some((at, autopsy));
        }
    }
    outcome.clocks = cohorts.clocks("sim", "job");
    outcome.communicators = cohorts.communicators("sim", "job");
    let nodes = plan.ranks.div_ceil(plan.ranks_a_node.max(1));
    outcome.truly_ahead_ns = (0..nodes).map(|node| agents.truly_ahead_ns(node, at)).collect();
    outcome.stopped = machine.stopped;
    outcome
}

fn take(cohorts: &mut Cohorts, plan: &Plan, push: &Push) {
    let source = Source {
        cluster: "sim",
        job: "job",
        node: &push.node,
        rank: Some(push.rank),
        nranks: Some(plan.ranks as u32),
    };
    for (signal, value) in &push.samples {
        cohorts.sample(&Sample { source, signal: *signal, value: *value, seen_ns: push.seen_ns });
    }
    for call in &push.calls {
        cohorts.collective(&source, &push.record(call), push.seen_ns);
    }
    if let Some(stuck) = push.stuck() {
        cohorts.stuck(&source, &stuck, push.seen_ns);
    }
}

fn note(outcome: &mut Outcome, verdicts: Vec<Verdict>, at: f64) {
    for verdict in &verdicts {
        match (verdict.kind, verdict.rank) {
            (VerdictKind::Straggler, Some(rank)) => {
                outcome.named.entry(rank).or_insert(at);
                outcome.first.entry(rank).or_insert_with(|| verdict.clone());
                *outcome.judgements.entry(rank).or_default() += 1;
            }
            (VerdictKind::Regression, _) if outcome.slower.is_none() => {
                outcome.slower = Some((at, verdict.clone()));
            }
            _ => {}
        }
    }
    outcome.standing = verdicts;
}
