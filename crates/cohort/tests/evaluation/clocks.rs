use gpuwhy_cohort::simulation::{Layout, Noise, Plan, trial};

#[test]
fn offsets_of_five_seconds_are_recovered_within_a_millisecond() {
    for (seed, noise) in [(1, Noise::CALM), (2, Noise::USUAL), (3, Noise::ROUGH)] {
        let plan = Plan {
            ranks: 16,
            ranks_a_node: 2,
            noise,
            clock_offset_seconds: 5.0,
            clock_drift_ppm: 30.0,
            ..Plan::new(seed)
        };
        let outcome = trial(&plan, 30.0);
        for (node, truth) in outcome.truly_ahead_ns.iter().enumerate() {
            let name = format!("node{node}");
            let clock = outcome.clocks.iter().find(|clock| clock.node == name).expect("all nodes are told");
            // The first one seen is the reference, whichever that is.
            let reference: usize = clock.reference.trim_start_matches("node").parse().unwrap();
            let truth = truth - outcome.truly_ahead_ns[reference];
            let off = (clock.ahead_ns.unwrap() - truth).unsigned_abs();
            assert!(off < 1_000_000, "{name} is off by {off} ns: {clock:?}, truth {truth}");
            assert!(
                off <= clock.error_ns.unwrap() + 300_000,
                "the bound does not hold: {clock:?}, truth {truth}"
            );
        }
    }
}

#[test]
fn nodes_that_share_no_communicator_are_aligned_over_others() {
    let plan = Plan {
        layout: Layout::Pipeline { stages: 4, tensor: 1, replicas: 4, microbatches: 4 },
        ranks: 16,
        ranks_a_node: 4,
        clock_offset_seconds: 5.0,
        ..Plan::new(9)
    };
    let outcome = trial(&plan, 30.0);
    assert!(outcome.clocks.iter().all(|clock| clock.ahead_ns.is_some()), "{:?}", outcome.clocks);
}
