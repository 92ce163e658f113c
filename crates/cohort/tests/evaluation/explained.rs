//! What a rank loses its time to says sooner than anything else that it is the one, but not by itself.

use crate::cases::{ONSET, fault};
use gpuwhy_cohort::simulation::{Agents, FaultKind, Machine, Noise, Plan, trial};
use gpuwhy_cohort::{Cohorts, Sample, Signal, Source};
use gpuwhy_model::Cause;

/// As eight ranks on two cores.
const BUSY: Noise = Noise { sigma: 0.12, spikes: 0.1, spike: 0.4, bias: 0.005 };

fn named_after(cause: Cause) -> f64 {
    let after = |seed: u64| {
        let mut slow = fault(5, FaultKind::Sleep { seconds: 0.003 });
        slow.cause = cause;
        let plan = Plan { faults: vec![slow], noise: BUSY, step_seconds: 0.05, ..Plan::new(seed) };
        let outcome = trial(&plan, 60.0);
        assert!(outcome.named.keys().all(|rank| *rank == 5), "seed {seed}: {:?}", outcome.first);
        outcome.named.get(&5).map_or(40.0, |at| at - ONSET)
    };
    let mut all: Vec<f64> = (0..9).map(after).collect();
    all.sort_by(f64::total_cmp);
    all[4]
}

#[test]
fn on_a_busy_host_a_rank_that_sleeps_is_named_sooner_than_one_of_which_nobody_knows_why() {
    // No agent of the simulation tells that one.
    let unknown = named_after(Cause::MemFault);
    let known = named_after(Cause::SelfSleep);
    assert!(known <= 12.0 && known * 2.0 <= unknown, "{known} s, without the cause {unknown} s");
}

#[test]
fn a_rank_that_loses_time_and_keeps_nobody_waiting_is_left_in_peace() {
    for seed in 0..16 {
        let noise = [Noise::CALM, Noise::USUAL, Noise::ROUGH, BUSY][seed as usize % 4];
        let plan = Plan { noise, ..Plan::new(seed) };
        let hidden = |rank: u32| (rank == 3).then_some((Signal::Blame(Cause::LockFutex), 0.05));
        assert_eq!(message(&plan, 300, hidden), None, "seed {seed}");
    }
}

/// The first that is said of a job whose agents tell something beside what they see, and when.
fn message(
    plan: &Plan,
    seconds: u32,
    reported: impl Fn(u32) -> Option<(Signal, f64)>,
) -> Option<(u32, String)> {
    let (mut machine, mut agents) = (Machine::new(plan), Agents::new(plan));
    let mut cohorts = Cohorts::default();
    for second in 1..=seconds {
        let at = f64::from(second);
        machine.run_to(at);
        for push in agents.pushes_to(&mut machine, at) {
            let rank = Some(push.rank);
            let source = Source { cluster: "sim", job: "job", node: &push.node, rank, nranks: Some(8) };
            let reported = reported(push.rank);
            let seen = push
                .samples
                .iter()
                .copied()
                .filter(|(signal, _)| reported.is_none_or(|(reported, _)| *signal != reported));
            for (signal, value) in seen.chain(reported) {
                cohorts.sample(&Sample { source, signal, value, seen_ns: push.seen_ns });
            }
            for call in &push.calls {
                cohorts.collective(&source, &push.record(call), push.seen_ns);
            }
        }
        if let Some(verdict) = cohorts.judge(plan.fleet_ns(at) + 60_000_000).into_iter().next() {
            return Some((second, verdict.message));
        }
    }
    None
}

/// Eight ranks on four cores: which of them share a core stays the same for minutes.
#[test]
fn small_differences_of_ranks_that_wait_for_cpus_are_chance_and_large_ones_are_not() {
    let crowded = |_| Some((Signal::Blame(Cause::CpuPreempted), 0.5));
    let late = |seed: u64, share: f64| {
        let slow = fault(5, FaultKind::Slow { share });
        Plan { faults: vec![slow], ..Plan::new(seed) }
    };
    for seed in 0..8 {
        assert_eq!(message(&late(seed, 0.035), 200, crowded), None, "seed {seed}");
        assert!(
            message(&late(seed, 0.035), 200, |_| None).is_some(),
            "seed {seed}: they have their own CPUs"
        );
        let large = message(&late(seed, 0.12), 60, crowded);
        assert!(large.is_some_and(|(_, message)| message.starts_with("rank 5 ")), "seed {seed}");
    }
}

/// Once or twice, for two seconds at most, and its agent knows why: that is over before anybody could do something about it.
#[test]
fn a_stall_that_is_over_names_nobody() {
    for seed in 0..32 {
        let noise = [Noise::CALM, Noise::USUAL, Noise::ROUGH, BUSY][seed as usize % 4];
        let seconds = [0.4, 0.8, 1.3, 1.9][seed as usize / 4 % 4];
        let mut stall = fault(5, FaultKind::Sleep { seconds });
        // A second one begins in what is left.
        (stall.cause, stall.to_seconds) = (Cause::IoFile, stall.from_seconds + 0.95);
        let plan = Plan { faults: vec![stall], noise, ..Plan::new(seed) };
        let outcome = trial(&plan, 60.0);
        assert!(outcome.named.is_empty(), "seed {seed}, {seconds} s: {:?}", outcome.first);
    }
}
