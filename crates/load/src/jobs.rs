//! The jobs of a load: which have which fault, drawn from a seed.

use crate::drive::Load;
use gpuwhy_cohort::simulation::{Agents, Fault, FaultKind, Layout, Machine, Noise, Plan, Random};
use gpuwhy_model::Cause;

/// A job that is simulated, and what is wrong with it.
pub(crate) struct Job {
    pub name: String,
    pub machine: Machine,
    pub agents: Agents,
    pub plan: Plan,
}

impl Job {
    /// Ranks with a fault of this sort, and from when on.
    pub(crate) fn planted(&self, is_sort: fn(&FaultKind) -> bool) -> impl Iterator<Item = (u32, f64)> {
        let faults = self.plan.faults.iter().filter(move |fault| is_sort(&fault.kind));
        faults.filter_map(|fault| Some((fault.rank? as u32, fault.from_seconds)))
    }
}

pub(crate) fn stops(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Hang | FaultKind::Mismatch)
}

pub(crate) fn is_slow(kind: &FaultKind) -> bool {
    !stops(kind)
}

/// Faults come no later than this.
const LATEST_ONSET: f64 = 20.0;

/// Jobs that begin now. Faults come after a third of the time, so that there is something to compare with.
pub(crate) fn jobs(load: &Load, begin_ns: u64) -> Vec<Job> {
    let mut random = Random::new(load.seed);
    let ranks = load.ranks.clamp(2, load.agents.max(2));
    let count = (load.agents / ranks).max(1);
    (0..count)
        .map(|at| {
            let step_seconds = random.one_of(&[0.05, 0.1, 0.1, 0.2]).unwrap_or(0.1);
            let rank = random.below(ranks);
            let onset = (load.seconds / 3.0).min(LATEST_ONSET) + random.between(0.0, 1.0);
            let fault = |kind| Fault {
                rank: Some(rank),
                kind,
                cause: Cause::CpuPreempted,
                from_seconds: onset,
                to_seconds: f64::INFINITY,
            };
            let drawn = random.share();
            let kind = if drawn < load.hangs {
                random.one_of(&[FaultKind::Hang, FaultKind::Mismatch])
            } else if drawn < load.hangs + load.stragglers {
                let kinds = [
                    FaultKind::Slow { share: 0.05 },
                    FaultKind::Slow { share: 0.2 },
                    FaultKind::Sleep { seconds: 0.08 },
                    FaultKind::NowAndThen { chance: 0.3, seconds: 0.8 * step_seconds },
                ];
                random.one_of(&kinds)
            } else {
                None
            };
            let plan = Plan {
                begin_ns,
                ranks,
                layout: Layout::Data { collectives: random.one_of(&[1, 1, 2]).unwrap_or(1) },
                ranks_a_node: 4,
                step_seconds,
                transfer_seconds: 0.05 * step_seconds,
                noise: random.one_of(&[Noise::CALM, Noise::USUAL]).unwrap_or(Noise::USUAL),
                faults: kind.map(fault).into_iter().collect(),
                clock_offset_seconds: load.clock_offset_seconds,
                push_seconds: load.push_seconds,
                ..Plan::new(random.bits())
            };
            let (machine, agents) = (Machine::new(&plan), Agents::new(&plan));
            Job { name: format!("load-{at}"), machine, agents, plan }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_plants_the_same_and_all_agents_are_there() {
        let load = Load { agents: 400, ..Load::default() };
        let (one, other) = (jobs(&load, 7), jobs(&load, 7));
        assert_eq!(
            one.iter().map(|job| &job.plan).collect::<Vec<_>>(),
            other.iter().map(|job| &job.plan).collect::<Vec<_>>()
        );
        assert_eq!(one.iter().map(|job| job.plan.ranks).sum::<usize>(), 400);
        assert!(one.iter().any(|job| job.planted(is_slow).count() == 1));
        assert!(one.iter().any(|job| job.plan.faults.is_empty()));
    }
}
