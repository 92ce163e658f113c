use gpuwhy_cohort::simulation::{Layout, Noise, Plan, trial};

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
            let said: Vec<&String> = outcome.first.values().map(|verdict| &verdict.said).collect();
            assert!(said.is_empty(), "{said:?} at {:?}: {plan:?}", outcome.named);
            assert!(outcome.slower.is_none(), "{:?}", outcome.slower);
        }
    }
}
