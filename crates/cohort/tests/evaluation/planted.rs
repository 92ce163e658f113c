use crate::cases::{END, ONSET, fault, planted};
use gpuwhy_cohort::VerdictKind;
use gpuwhy_cohort::simulation::{FaultKind, Noise, Plan, trial};
use std::time::{SystemTime, UNIX_EPOCH};

/// Another one each time; `SEED` repeats a run.
fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()))
}

#[test]
fn two_hundred_planted_cases_are_found_and_little_else() {
    let seed = seed();
    println!("SEED={seed}");
    let (mut found, mut missed, mut wrong) = (0usize, 0usize, 0usize);
    let mut delays = Vec::new();
    for case in 0..200 {
        let plan = planted(seed.wrapping_mul(1000).wrapping_add(case));
        let outcome = trial(&plan, END);
        let guilty: Vec<u32> =
            plan.faults.iter().filter_map(|fault| fault.rank).map(|rank| rank as u32).collect();
        for rank in &guilty {
            match outcome.named.get(rank) {
                Some(at) if *at >= ONSET => {
                    found += 1;
                    delays.push(at - ONSET);
                }
                _ => {
                    missed += 1;
                    println!(
                        "case {case}: rank {rank} was not named, records {}: {plan:?}",
                        plan.has_records
                    );
                }
            }
        }
        for (rank, at) in outcome.named.iter().filter(|(rank, at)| !guilty.contains(rank) || **at < ONSET) {
            wrong += 1;
            println!(
                "case {case}: rank {rank} was named at {at} s, for {}: {plan:?}",
                outcome.first[rank].message
            );
        }
    }
    delays.sort_by(f64::total_cmp);
    let (precision, recall) = (found as f64 / (found + wrong) as f64, found as f64 / (found + missed) as f64);
    println!(
        "precision {precision:.3}, recall {recall:.3}; named after {:.0} s (median), {:.0} s (p90), {:.0} s (p99)",
        delays[delays.len() / 2],
        delays[delays.len() * 9 / 10],
        delays[delays.len() * 99 / 100]
    );
    assert!(precision >= 0.97, "precision {precision}, SEED={seed}");
    assert!(recall >= 0.95, "recall {recall}, SEED={seed}");
}

#[test]
fn the_usual_stragglers_are_named_within_five_seconds() {
    for kind in
        [FaultKind::Slow { share: 0.05 }, FaultKind::Slow { share: 0.2 }, FaultKind::Sleep { seconds: 0.08 }]
    {
        for seed in 0..5 {
            let plan = Plan { faults: vec![fault(5, kind)], ..Plan::new(seed) };
            let outcome = trial(&plan, 40.0);
            let at = outcome.named.get(&5).copied().unwrap_or(f64::INFINITY);
            assert!((ONSET..=ONSET + 5.0).contains(&at), "{kind:?}, seed {seed}: named at {at}");
            assert_eq!(outcome.named.len(), 1, "{kind:?}, seed {seed}: {:?}", outcome.first);
            let verdict = &outcome.standing[0];
            assert_eq!(verdict.cause.as_ref().map(|cause| cause.class.name()), Some("cpu.preempted"));
            assert!(verdict.value > verdict.threshold && verdict.threshold > verdict.median, "{verdict:?}");
        }
    }
}

#[test]
fn a_lasting_straggler_stays_named_and_a_recovered_one_does_not() {
    let mut slow = fault(2, FaultKind::Slow { share: 0.05 });
    slow.to_seconds = 400.0;
    let plan = Plan { faults: vec![slow], noise: Noise::USUAL, ..Plan::new(11) };
    let outcome = trial(&plan, 460.0);
    let named = outcome.judgements[&2];
    assert!((370..=430).contains(&named), "named in {named} judgements of 380");
    assert!(outcome.standing.iter().all(|verdict| verdict.rank != Some(2)), "{:?}", outcome.standing);
}

#[test]
fn a_straggler_from_the_first_step_on_is_named() {
    let mut slow = fault(0, FaultKind::Slow { share: 0.05 });
    slow.from_seconds = 0.0;
    let outcome = trial(&Plan { faults: vec![slow], ..Plan::new(3) }, 30.0);
    assert!(outcome.named.get(&0).is_some_and(|at| *at <= 8.0), "{:?}", outcome.named);
    assert_eq!(outcome.named.len(), 1);
}

#[test]
fn a_cohort_that_slows_down_is_a_regression_and_nobody_is_accused() {
    let mut all = fault(0, FaultKind::Slow { share: 0.15 });
    (all.rank, all.from_seconds) = (None, 200.0);
    let outcome = trial(&Plan { faults: vec![all], ..Plan::new(5) }, 300.0);
    assert!(outcome.named.is_empty(), "{:?}", outcome.first);
    let (at, verdict) = outcome.slower.expect("told");
    assert!((200.0..250.0).contains(&at), "{at}");
    assert_eq!(verdict.kind, VerdictKind::Regression);
    assert!((0.1..0.2).contains(&verdict.excess_share), "{verdict:?}");
}

#[test]
fn calls_that_return_at_once_tell_by_their_beginnings() {
    let plan = Plan {
        faults: vec![fault(6, FaultKind::Sleep { seconds: 0.02 })],
        is_blocking: false,
        ranks_a_node: 8,
        ..Plan::new(8)
    };
    let outcome = trial(&plan, 40.0);
    assert_eq!(outcome.named.keys().copied().collect::<Vec<_>>(), [6]);
    assert!(outcome.communicators.iter().all(|comm| !comm.blocking));
}

#[test]
fn who_came_last_and_who_waited_is_told_by_rank() {
    let plan = Plan { faults: vec![fault(5, FaultKind::Sleep { seconds: 0.08 })], ..Plan::new(1) };
    let outcome = trial(&plan, 50.0);
    let comm = &outcome.communicators[0];
    let worst = &comm.ranks[0];
    assert_eq!(worst.rank, 5);
    assert!(worst.last > 150 && worst.median_late_ns > 70_000_000, "{worst:?}");
    // 30 s of steps of 185 ms, each with 80 ms of which all seven others waited: 30 / 0.185 * 0.08 * 7 = 91 s.
    let waited = worst.kept_waiting_ns as f64 / 1e9;
    assert!((80.0..105.0).contains(&waited), "{waited}");
    assert!(comm.waits.iter().take(7).all(|(_, awaited, _)| *awaited == 5), "{:?}", comm.waits);
    assert_eq!(comm.rounds[0].order.last().map(|(rank, _)| *rank), Some(5));
    // In the last ten seconds 80 of every 185 ms would have been saved.
    let saved = worst.saved_shares.last().copied().unwrap_or(0.0);
    assert!((saved - 80.0 / 185.0).abs() < 0.05, "{saved}");
}
