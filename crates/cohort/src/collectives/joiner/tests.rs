//! Records joined: who waits for whom, and that what is remembered has bounds.

use super::*;

const MS: u64 = 1_000_000;

fn record(comm: &str, seq: u64, rank: u32, nranks: u32, done: bool) -> Record<'_> {
    Record {
        comm,
        seq: Some(seq),
        op: "ALL_REDUCE",
        rank,
        nranks,
        count: 8,
        datatype: "float32",
        reduce_op: "sum",
        peer: None,
        start_ns: seq * MS,
        duration_ns: done.then_some(MS / 2),
        pid: None,
    }
}

/// Four ranks, the last of which hangs in its third collective as process 100 and more; then all come again as others.
#[test]
fn who_hung_in_a_job_that_was_started_again_hangs_no_more() {
    let mut joiner = Joiner::default();
    let second = 1000 * MS;
    let mut push = |comm: &'static str, seq: u64, rank: u32, pid: u64, done: bool, at: u64| {
        let again = joiner.starts_again(rank, Some(pid), at);
        joiner.push(rank, "n", &record(comm, seq, rank, 4, done), at);
        again
    };
    for rank in 0..4 {
        for seq in 1..=6 {
            let is_last = seq == 6;
            if !(is_last && rank == 3) {
                assert!(!push("0xa", seq, rank, 100 + u64::from(rank), !is_last, second));
            }
        }
    }
    let hangs = |joiner: &Joiner, at: u64| joiner.autopsies("c", "j", at, 6 * second).len();
    assert_eq!(hangs(&joiner, 8 * second), 1, "they wait for the last one");
    let mut push = |comm: &'static str, seq: u64, rank: u32, pid: u64, at: u64| {
        let again = joiner.starts_again(rank, Some(pid), at);
        joiner.push(rank, "n", &record(comm, seq, rank, 4, true), at);
        again
    };
    for rank in 0..4 {
        assert!(push("0xb", 1, rank, 200 + u64::from(rank), 9 * second));
        assert!(!push("0xb", 2, rank, 200 + u64::from(rank), 9 * second));
        assert!(!push("0xb", 3, rank, 300, 10 * second), "two that tell by turns");
    }
    assert_eq!(hangs(&joiner, 20 * second), 0);
    assert_eq!(joiner.reports().len(), 1);
}

#[test]
fn what_waits_for_a_silent_rank_is_bounded() {
    let mut joiner = Joiner::default();
    for seq in 1..=100_000 {
        for rank in 0..3 {
            assert!(joiner.push(rank, "n", &record("0x1", seq, rank, 4, true), seq * MS));
        }
    }
    assert!(joiner.arrivals <= ARRIVALS * 16, "{}", joiner.arrivals);
    let reported: usize = joiner.comms["0x1"].rounds.values().map(|round| round.arrivals.len()).sum();
    assert_eq!(joiner.arrivals, reported);
    assert!(joiner.comms["0x1"].stride > 1);
    // Given up on the fourth, they are compared without it.
    joiner.tick(200_000 * MS, &mut Vec::new());
    assert_eq!(joiner.arrivals, 0);
    assert!(joiner.reports()[0].joined > 0);
}

#[test]
fn nonsense_is_refused() {
    let mut joiner = Joiner::default();
    assert!(!joiner.push(0, "n", &record("0x1", 1, 4, 4, true), 0));
    for comm in 0..SEATS * FEWEST {
        assert!(joiner.push(0, "n", &record(&format!("{comm:#x}"), 1, 0, 4, true), 0));
    }
    assert!(!joiner.push(0, "n", &record("one more", 1, 0, 4, true), 0));
    assert_eq!(joiner.refused, 2);
    // Those in which nobody calls anything any more make room.
    let later = 700_000 * MS;
    assert!(joiner.push(0, "n", &record("0x1", 2, 0, 4, true), later));
    joiner.forget(later, 600_000 * MS);
    assert_eq!((joiner.comms.len(), joiner.seats), (1, 1));
    assert!(joiner.push(0, "n", &record("one more", 1, 0, 4, true), later));
}

/// One process that says of itself to be 200,000 ranks, on as many nodes, in communicators without end.
#[test]
fn invented_ranks_take_no_more_than_the_rank_that_invents_them() {
    let mut joiner = Joiner::default();
    let (mut taken, nranks) = (0, 200_000);
    for rank in 0..nranks {
        for (comm, node) in [("0x1", "n".to_string()), (&*format!("{rank:#x}"), format!("n{rank}"))] {
            let record = record(comm, u64::from(rank), rank, nranks, rank % 2 == 0);
            taken += usize::from(joiner.push(0, &node, &record, MS));
        }
    }
    assert!(taken <= SEATS * FEWEST && joiner.refused as usize + taken == 400_000, "{taken}");
    let seats: usize = joiner.comms.values().map(|comm| comm.seats.len()).sum();
    assert!(seats == joiner.seats && seats <= SEATS * FEWEST, "{seats}");
    assert!(joiner.arrivals <= ARRIVALS * FEWEST && joiner.nodes.len() <= NODES);
    assert!(joiner.comms["0x1"].seats.len() <= DEVICES);
    // Real ranks of the job still come to where they meet.
    for rank in 1..64 {
        assert!(joiner.push(rank, "m", &record("0xreal", 1, rank, 64, true), MS), "rank {rank}");
    }
}

/// However many collectives wait for ranks that do not come, in however many communicators.
#[test]
fn arrivals_are_bounded_whatever_waits() {
    let mut joiner = Joiner::default();
    for seq in 0..50_000 {
        joiner.push(0, "n", &record(["0x1", "0x2", "0x3"][seq as usize % 3], seq, 0, 2, false), MS);
        assert!(joiner.arrivals <= ARRIVALS * FEWEST, "{seq}: {}", joiner.arrivals);
    }
    let counted: usize =
        joiner.comms.values().flat_map(|comm| comm.rounds.values()).map(|round| round.arrivals.len()).sum();
    assert_eq!(counted, joiner.arrivals);
}

#[test]
fn a_call_told_twice_counts_once() {
    let mut joiner = Joiner::default();
    for _ in 0..2 {
        for rank in 0..2 {
            joiner.push(rank, "n", &record("0x1", 1, rank, 2, false), MS);
        }
    }
    assert_eq!(joiner.arrivals, 2);
    for rank in 0..2 {
        joiner.push(rank, "n", &record("0x1", 1, rank, 2, true), 2 * MS);
    }
    assert_eq!((joiner.arrivals, joiner.reports()[0].joined), (0, 1));
    assert!(joiner.autopsies("c", "j", 100_000 * MS, 1).is_empty());
}

#[test]
fn ranks_that_wait_for_each_other_in_two_communicators_are_a_deadlock() {
    let mut joiner = Joiner::default();
    for (comm, ranks) in [("0xa", [0, 1]), ("0xb", [0, 1])] {
        for rank in ranks {
            joiner.push(rank, "n", &record(comm, 1, rank, 2, true), MS);
        }
    }
    joiner.push(0, "n", &record("0xa", 2, 0, 2, false), 2 * MS);
    joiner.push(1, "n", &record("0xb", 2, 1, 2, false), 2 * MS);
    let reported = joiner.autopsies("c", "j", 10_000 * MS, 6_000 * MS);
    assert_eq!(reported.len(), 2);
    assert!(reported.iter().all(|hang| hang.kind == crate::collectives::HangKind::Deadlock), "{reported:?}");
}

#[test]
fn a_rank_that_nobody_watches_makes_the_answer_uncertain() {
    let mut joiner = Joiner::default();
    for rank in 0..3 {
        joiner.push(rank, "n", &record("0xa", 1, rank, 4, false), MS);
    }
    let reported = joiner.autopsies("c", "j", 10_000 * MS, 6_000 * MS);
    assert_eq!(reported.len(), 1);
    assert_eq!((reported[0].unobserved.as_slice(), reported[0].certain), ([3].as_slice(), false));
    assert_eq!(
        reported[0].message,
        "3 ranks in collective 1 (ALL_REDUCE of 8 float32 (sum)) wait for rank 3, which no agent watches, for 9 s"
    );
}

#[test]
fn everybody_sending_to_everybody_is_no_pipeline() {
    let message = |rank: u32, peer: u32, op: &'static str| Record {
        seq: None,
        op,
        peer: Some(peer),
        ..record("0xe", 1, rank, 4, true)
    };
    let mut exchange = Joiner::default();
    let mut pipeline = Joiner::default();
    for rank in 0..4 {
        for peer in (0..4).filter(|peer| *peer != rank) {
            exchange.push(rank, "n", &message(rank, peer, "SEND"), MS);
            if peer == rank + 1 {
                pipeline.push(rank, "n", &message(rank, peer, "SEND"), MS);
                pipeline.push(peer, "n", &message(peer, rank, "RECV"), MS);
            }
        }
    }
    assert_eq!(exchange.roles(), None);
    let roles = pipeline.roles().unwrap();
    assert_eq!(roles.values().collect::<std::collections::BTreeSet<_>>().len(), 4);
}
