use gpuwhy_cohort::simulation::{Layout, Noise, Plan, Random, trial};

#[test]
fn ten_minutes_of_noisy_but_equal_ranks_name_nobody() {
    for (seed, noise) in
        [(1, Noise::CALM), (2, Noise::USUAL), (3, Noise::USUAL), (4, Noise::ROUGH), (5, Noise::ROUGH)]
    {
        for (ranks, collectives, step_seconds) in [(8, 1, 0.1), (16, 4, 0.25)] {
            let plan = Plan {
                ranks,
                layout: Layout::Data { collectives },
                step_seconds,
                noise,
                clock_offset_seconds: 5.0,
                ..Plan::new(seed)
            };
            let outcome = trial(&plan, 600.0);
            let message: Vec<&String> = outcome.first.values().map(|verdict| &verdict.message).collect();
            assert!(message.is_empty(), "{message:?} at {:?}: {plan:?}", outcome.named);
            assert!(outcome.slower.is_none(), "{:?}", outcome.slower);
        }
    }
}

/// Anything a job may be, but ill.
fn healthy(seed: u64) -> Plan {
    let mut random = Random::new(seed);
    let pipeline = Layout::Pipeline { stages: 4, tensor: 2, replicas: 2, microbatches: 4 };
    let collectives = [1, 2, 4, 8][random.below(4)];
    let is_pipeline = random.share() < 0.2;
    Plan {
        layout: if is_pipeline { pipeline } else { Layout::Data { collectives } },
        ranks: if is_pipeline { 16 } else { [4, 8, 8, 16, 32][random.below(5)] },
        ranks_a_node: [1, 4, 8][random.below(3)],
        step_seconds: [0.02, 0.05, 0.1, 0.2, 0.4, 1.0][random.below(6)],
        noise: [Noise::CALM, Noise::USUAL, Noise::ROUGH][random.below(3)],
        clock_offset_seconds: 5.0,
        push_seconds: [1.0, 2.0][random.below(2)],
        has_records: random.share() < 0.7,
        is_blocking: random.share() < 0.8,
        ..Plan::new(seed)
    }
}

#[test]
fn healthy_jobs_of_all_kinds_are_left_in_peace() {
    for seed in 0..30 {
        let plan = healthy(seed);
        let outcome = trial(&plan, 600.0);
        let message: Vec<&String> = outcome.first.values().map(|verdict| &verdict.message).collect();
        assert!(message.is_empty(), "{message:?} at {:?}: {plan:?}", outcome.named);
        assert!(outcome.slower.is_none(), "{:?}: {plan:?}", outcome.slower);
        assert!(outcome.hang.is_none(), "{:?}: {plan:?}", outcome.hang);
    }
}
