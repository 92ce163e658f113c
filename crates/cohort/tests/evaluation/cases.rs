//! Jobs with faults, drawn at random from a seed.

use gpuwhy_cohort::simulation::{Fault, FaultKind, Layout, Noise, Plan, Random};
use gpuwhy_model::Cause;

pub(crate) const ONSET: f64 = 20.0;
pub(crate) const END: f64 = 60.0;

pub(crate) fn fault(rank: usize, kind: FaultKind) -> Fault {
    Fault {
        rank: Some(rank),
        kind,
        cause: Cause::CpuPreempted,
        from_seconds: ONSET,
        to_seconds: f64::INFINITY,
    }
}

/// One of the kinds the issue names, each at its size.
pub(crate) fn kind(random: &mut Random, step_seconds: f64) -> FaultKind {
    match random.below(6) {
        0 => FaultKind::Slow { share: 0.05 },
        1 => FaultKind::Slow { share: 0.2 },
        2 => FaultKind::Sleep { seconds: 0.08 },
        3 => FaultKind::NowAndThen { chance: 0.3, seconds: 0.8 * step_seconds },
        4 => FaultKind::Bursts { share: 0.5, on_seconds: 4.0, off_seconds: 4.0 },
        _ => FaultKind::Slow { share: random.between(0.05, 1.0) },
    }
}

/// A job with one straggler, or two, and everything else drawn.
pub(crate) fn planted(seed: u64) -> Plan {
    let mut random = Random::new(seed);
    let step_seconds = [0.03, 0.05, 0.1, 0.1, 0.2, 0.4][random.below(6)];
    let ranks = [8, 8, 8, 16, 4, 32][random.below(6)];
    let stragglers = if ranks >= 8 && random.share() < 0.25 { 2 } else { 1 };
    let first = random.below(ranks);
    let second = (first + 1 + random.below(ranks - 1)) % ranks;
    let faults = [first, second][..stragglers]
        .iter()
        .map(|rank| fault(*rank, kind(&mut random, step_seconds)))
        .collect();
    Plan {
        layout: Layout::Data { collectives: [1, 1, 2, 4][random.below(4)] },
        ranks,
        ranks_a_node: [1, 4, 8][random.below(3)],
        step_seconds,
        transfer_seconds: step_seconds * random.between(0.02, 0.15),
        noise: [Noise::CALM, Noise::USUAL, Noise::USUAL][random.below(3)],
        faults,
        clock_offset_seconds: [0.0, 0.001, 5.0][random.below(3)],
        clock_drift_ppm: 20.0,
        push_seconds: [1.0, 1.0, 2.0][random.below(3)],
        is_blocking: true,
        has_records: random.share() < 0.85,
        ..Plan::new(seed)
    }
}
