use gpuwhy_cohort::simulation::{ClockStep, Fault, FaultKind, Layout, Noise, Plan, trial};
use gpuwhy_model::Cause;

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

/// Clocks of two nodes are set, by an hour, by a second and back.
fn stepped(seed: u64) -> Plan {
    let step = |node, at_seconds, by_seconds| ClockStep { node, at_seconds, by_seconds };
    Plan {
        ranks: 8,
        ranks_a_node: 2,
        clock_offset_seconds: 5.0,
        clock_steps: vec![
            step(1, 40.0, 3600.0),
            step(1, 80.0, -7200.0),
            step(2, 60.3, 1.0),
            step(2, 61.7, -1.0),
            step(1, 120.5, 0.02),
        ],
        ..Plan::new(seed)
    }
}

#[test]
fn clocks_that_are_set_while_a_job_runs_name_nobody() {
    for seed in 0..8 {
        let plan = Plan { is_blocking: seed % 2 == 0, ..stepped(seed) };
        let outcome = trial(&plan, 240.0);
        let message: Vec<&String> = outcome.first.values().map(|verdict| &verdict.message).collect();
        assert!(message.is_empty(), "{message:?} at {:?}: {plan:?}", outcome.named);
        assert!(
            outcome.slower.is_none() && outcome.hang.is_none(),
            "{:?} {:?}",
            outcome.slower,
            outcome.hang
        );
    }
}

#[test]
fn a_straggler_is_found_and_stays_named_while_clocks_are_set() {
    for seed in 0..4 {
        let fault = Fault {
            rank: Some(3),
            kind: FaultKind::Slow { share: 0.2 },
            cause: Cause::CpuPreempted,
            from_seconds: 20.0,
            to_seconds: 1e9,
        };
        let plan = Plan { faults: vec![fault], ..stepped(seed) };
        let outcome = trial(&plan, 200.0);
        assert_eq!(outcome.named.keys().collect::<Vec<_>>(), [&3], "{:?}", outcome.first);
        assert!(outcome.named[&3] < 26.0 && outcome.judgements[&3] > 170, "{:?}", outcome.judgements);
    }
}
