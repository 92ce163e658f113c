//! Peers under clocks that are set, and pushes that do not wait.

use super::Peers;
use crate::clock::Now;
use crate::ingest::Budget;
use crate::point::{Batch, Event, Found, Kind, Origin};
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_800_000_000 * SECOND;

fn origin(rank: i32) -> Origin {
    Origin {
        cluster: "c".into(),
        node: format!("node{rank}").into(),
        job: Some("j".into()),
        rank: Some(rank),
        nranks: Some(8),
    }
}

/// What a rank tells in a second, at a time of its own clock.
fn batch(rank: i32, at_ns: i64, own: f64) -> Arc<Batch> {
    let gauge = |name: &str, value: f64| Event {
        timestamp_ns: at_ns,
        origin: origin(rank),
        name: format!("gpuwhy.rank.{name}").into(),
        kind: Kind::Gauge,
        double: Some(value),
        int: None,
        attrs: None,
    };
    let events =
        vec![gauge("step_seconds", 0.1), gauge("own_seconds", own), gauge("health", 1.0 - own / 0.1)];
    Arc::new(Batch { events, ..Batch::default() })
}

/// Eight ranks for so many seconds; `slow` is one of them, or none. Clocks say what they are made to say: of the server, and of a
/// rank.
fn run(
    seconds: i64,
    slow: i32,
    server: impl Fn(i64) -> i64,
    agent: impl Fn(i32, i64) -> i64,
) -> (Peers, Vec<(i64, Found)>) {
    let (peers, budget, sender) = (Peers::default(), Budget::new(usize::MAX, false), "a".into());
    let mut found = Vec::new();
    for at in 0..seconds {
        let steady_ns = BEGIN + at * SECOND;
        let now = Now { wall_ns: steady_ns + server(at) * SECOND, steady_ns };
        for rank in 0..8 {
            let noise = ((at * 7 + i64::from(rank) * 13) % 11) as f64 / 10_000.0;
            let own = 0.05 + noise + if rank == slow { 0.03 } else { 0.0 };
            peers.give(
                batch(rank, steady_ns + agent(rank, at) * SECOND, own),
                now,
                Arc::clone(&sender),
                budget.none(&sender),
            );
        }
        found.extend(peers.judge(now).into_iter().map(|found| (at, found)));
    }
    (peers, found)
}

#[test]
fn clocks_that_are_set_name_nobody() {
    let hour = 3_600;
    let servers: [fn(i64) -> i64; 4] = [
        |_| 0,
        |at| if at > 40 { 3_600 } else { 0 },
        |at| if at > 40 { -3_600 } else { 0 },
        |at| if at % 20 < 10 { 86_400 * 40 } else { -7 },
    ];
    for server in servers {
        let (_, found) = run(120, -1, server, |_, _| 0);
        assert!(found.is_empty(), "{found:?}");
        let (_, found) = run(120, -1, server, |rank, at| if rank == 3 && at > 50 { hour } else { 0 });
        assert!(found.is_empty(), "{found:?}");
        let (_, found) = run(120, -1, server, |rank, at| if rank == 3 && at > 50 { -hour } else { 0 });
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_straggler_is_named_once_and_stays_named_while_clocks_are_set() {
    for by in [3_600, -3_600, 86_400] {
        let (peers, found) = run(120, 5, |at| if at > 40 { by } else { 0 }, |_, _| 0);
        let [(at, straggler)] = &found[..] else { panic!("{by}: {found:?}") };
        assert!(*at < 40 && straggler.origin.rank == Some(5), "{found:?}");
        let standing = peers.verdicts(None, None);
        assert_eq!(standing.iter().map(|message| message.rank).collect::<Vec<_>>(), [Some(5)]);
    }
}

#[test]
fn pushes_that_are_turned_away_delay_verdicts_of_their_own_clusters_alone() {
    let (peers, _) = run(20, 5, |_| 0, |_, _| 0);
    let other = batch(0, BEGIN + 20 * SECOND, 0.05);
    let mut other = Batch::clone(&other);
    other.events.iter_mut().for_each(|event| event.origin.cluster = "d".into());
    let (budget, sender) = (Budget::new(1, false), "a".into());
    peers.give(Arc::new(other), Now::at(BEGIN + 20 * SECOND), Arc::clone(&sender), budget.none(&sender));
    peers.absorb();
    peers.turned_away(vec!["c".into()]);
    peers.judge(Now::at(BEGIN + 21 * SECOND));
    assert!(peers.patience(Some(&["c".into()])).is_some());
    assert_eq!(peers.patience(Some(&["d".into()])), None);
}

#[test]
fn neither_pushes_nor_questions_wait_for_a_judgement() {
    let (peers, _) = run(20, 5, |_| 0, |_, _| 0);
    // As while it judges.
    let judging = super::lock(&peers.inner);
    let push = batch(2, BEGIN + 20 * SECOND, 0.05);
    let advice = peers.advice(&push).unwrap();
    peers.give(push, Now::at(BEGIN + 20 * SECOND), "a".into(), Budget::new(1, false).none(&"a".into()));
    assert!((advice.quorum_met, &*advice.cohort) == (true, "c/j") && advice.threshold.is_some());
    assert_eq!((peers.verdicts(None, None).len(), peers.autopsies(None, None).len()), (1, 0));
    assert_eq!(peers.thresholds("c", None).len(), 1);
    assert_eq!(peers.verdicts(Some(&["other".into()]), None).len(), 0);
    assert_eq!(peers.thresholds("c", Some("another")).len(), 0);
    drop(judging);
    peers.absorb();
    assert!(super::lock(&peers.inbox).is_empty());
}
