use crate::cases::fault;
use gpuwhy_cohort::collectives::HangKind;
use gpuwhy_cohort::simulation::{FaultKind, Layout, Plan, Random, trial};

fn plan(seed: u64, kind: FaultKind) -> (Plan, usize) {
    let mut random = Random::new(seed);
    let ranks = [4, 8, 16][random.below(3)];
    let rank = random.below(ranks);
    let mut planted = fault(rank, kind);
    planted.from_seconds = random.between(3.0, 20.0);
    let plan = Plan {
        ranks,
        layout: Layout::Data { collectives: 1 + random.below(4) },
        faults: vec![planted],
        clock_offset_seconds: 5.0,
        push_seconds: random.between(1.0, 2.0),
        ..Plan::new(seed)
    };
    (plan, rank)
}

#[test]
fn a_rank_that_stops_is_named_within_ten_seconds_with_its_stack() {
    for seed in 0..40 {
        let (plan, rank) = plan(seed, FaultKind::Hang);
        let outcome = trial(&plan, 40.0);
        let (at, autopsy) = outcome.hang.expect("told");
        let stopped = outcome.stopped.expect("it stopped");
        assert!(at - stopped <= 10.0, "seed {seed}: {} s", at - stopped);
        assert_eq!(autopsy.kind, HangKind::Missing, "{}", autopsy.message);
        assert_eq!(autopsy.culprits.iter().map(|suspect| suspect.rank as usize).collect::<Vec<_>>(), [rank]);
        assert!(autopsy.culprits[0].stack[0].starts_with("data.py:"), "{autopsy:?}");
        assert_eq!(autopsy.waiting.len(), plan.ranks - 1);
        assert!(autopsy.certain);
    }
}

#[test]
fn a_rank_that_calls_with_another_count_is_named() {
    for seed in 0..40 {
        let (plan, rank) = plan(seed, FaultKind::Mismatch);
        let outcome = trial(&plan, 40.0);
        let (at, autopsy) = outcome.hang.expect("told");
        assert!(at - outcome.stopped.expect("it stopped") <= 10.0, "seed {seed}");
        assert_eq!(autopsy.kind, HangKind::Mismatch, "{}", autopsy.message);
        assert_eq!(autopsy.culprits.iter().map(|suspect| suspect.rank as usize).collect::<Vec<_>>(), [rank]);
        let suspect = &autopsy.culprits[0];
        assert_ne!(suspect.last_call, suspect.expected_call);
    }
}

#[test]
fn a_job_that_runs_hangs_nowhere() {
    for seed in 0..5 {
        assert!(trial(&Plan { push_seconds: 2.0, ..Plan::new(seed) }, 60.0).hang.is_none());
    }
}

#[test]
fn in_a_pipeline_the_rank_that_all_others_wait_for_is_named_and_not_those_that_wait() {
    for seed in 0..10 {
        let mut planted = fault(seed as usize, FaultKind::Hang);
        planted.from_seconds = 10.0;
        let plan = Plan {
            layout: Layout::Pipeline { stages: 4, tensor: 2, replicas: 2, microbatches: 4 },
            ranks: 16,
            faults: vec![planted],
            ..Plan::new(seed)
        };
        let outcome = trial(&plan, 40.0);
        let (_, autopsy) = outcome.hang.expect("told");
        assert_eq!(
            autopsy.culprits.iter().map(|suspect| suspect.rank).collect::<Vec<_>>(),
            [seed as u32],
            "{}",
            autopsy.message
        );
    }
}
