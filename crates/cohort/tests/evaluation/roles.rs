use crate::cases::fault;
use gpuwhy_cohort::simulation::{FaultKind, Layout, Noise, Plan, trial};

fn pipeline(seed: u64, tensor: usize, replicas: usize) -> Plan {
    Plan {
        layout: Layout::Pipeline { stages: 4, tensor, replicas, microbatches: 4 },
        ranks: 4 * tensor * replicas,
        step_seconds: 0.3,
        noise: Noise::USUAL,
        ..Plan::new(seed)
    }
}

#[test]
fn a_stage_with_more_to_do_is_not_accused() {
    for (tensor, replicas) in [(1, 1), (1, 4), (2, 2), (2, 4)] {
        for seed in 0..3 {
            let outcome = trial(&pipeline(seed, tensor, replicas), 180.0);
            let message: Vec<&String> = outcome.first.values().map(|verdict| &verdict.message).collect();
            assert!(message.is_empty(), "{tensor} x {replicas}, seed {seed}: {message:?}");
        }
    }
}

#[test]
fn where_no_collectives_are_told_a_stage_is_not_accused_either() {
    for seed in 0..3 {
        let outcome = trial(&Plan { has_records: false, ..pipeline(seed, 2, 2) }, 180.0);
        assert!(outcome.named.is_empty(), "seed {seed}: {:?}", outcome.named);
    }
}

#[test]
fn a_slow_rank_of_a_stage_is_named_and_those_that_wait_for_it_are_not() {
    for (tensor, replicas) in [(1, 4), (2, 2), (2, 4)] {
        for rank in [0, 3, 7] {
            let plan = Plan {
                faults: vec![fault(rank, FaultKind::Slow { share: 0.4 })],
                ..pipeline(rank as u64, tensor, replicas)
            };
            let outcome = trial(&plan, 80.0);
            assert_eq!(
                outcome.named.keys().copied().collect::<Vec<_>>(),
                [rank as u32],
                "{tensor} x {replicas}: {:?}",
                outcome.first
            );
        }
    }
}

#[test]
fn a_stage_without_peers_is_compared_with_its_own_past() {
    let mut slow = fault(2, FaultKind::Slow { share: 0.4 });
    slow.from_seconds = 80.0;
    let outcome = trial(&Plan { faults: vec![slow], ..pipeline(4, 1, 1) }, 200.0);
    assert_eq!(outcome.named.keys().copied().collect::<Vec<_>>(), [2], "{:?}", outcome.first);
    // It stays named: the past does not follow.
    assert!(outcome.standing.iter().any(|verdict| verdict.rank == Some(2)));
}
