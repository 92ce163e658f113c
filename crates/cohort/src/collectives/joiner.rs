//! Joins the records of a job's ranks by communicator and number.
//!
//! Memory: at most [`ARRIVALS`] arrivals are remembered for each rank until the others have told theirs (about 10 KiB a
//! rank), and 1 KiB of sums. Where collectives come faster than that, one in two is joined, then one in four, and so on.

use super::autopsy::Autopsy;
use super::clocks::{Clock, Clocks};
use super::communicator::Communicator;
use super::hang;
use super::holders::Holders;
use super::record::{Record, Stuck};
use super::report::CommunicatorReport;
use super::roles;
use super::round::Round;
use std::collections::BTreeMap;

/// Of each rank, not yet joined.
const ARRIVALS: usize = 128;
const COMMUNICATORS: usize = 4096;
const NODES: usize = 65_536;
/// Longer than pushes are apart: whoever has not told a collective by then does not tell it.
const PATIENCE_NS: u64 = 6_000_000_000;
/// Stretches of time in which ranks are compared take at least so long.
pub(crate) const STRETCH_NS: f64 = 200e6;

/// The communicator at which a rank meets most others, and which of its collectives are taken as marks: one in `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Anchor {
    pub comm: u32,
    pub every: u64,
}

/// A rank was in a collective, by the clock of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub rank: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Calls before it were lost.
    pub gap: bool,
    /// The collective's number, where it is a mark: all ranks with this anchor meet at it.
    pub mark: Option<u64>,
    pub anchor: Option<Anchor>,
}

#[derive(Debug, Clone)]
pub(super) struct StackNote {
    pub stack: Vec<String>,
    pub seen_ns: u64,
}

/// The collectives of one job.
#[derive(Debug, Clone, Default)]
pub struct Joiner {
    pub(super) comms: BTreeMap<String, Communicator>,
    next_comm: u32,
    pub(super) nodes: Vec<String>,
    node_ids: BTreeMap<String, u32>,
    clocks: Clocks,
    /// By rank in the job.
    anchors: BTreeMap<u32, Anchor>,
    pub(super) stacks: BTreeMap<u32, StackNote>,
    holders: Holders,
    /// When each rank was last heard of.
    pub(super) heard: BTreeMap<u32, u64>,
    arrivals: usize,
    refused: u64,
}

impl Joiner {
    /// A call of `rank` on `node`, which the fleet learned of at `seen_ns`. False where it was not taken: its rank
    /// is not one of its communicator, or there are too many communicators or nodes.
    pub fn push(&mut self, rank: u32, node: &str, record: &Record<'_>, seen_ns: u64) -> bool {
        self.take(rank, node, record, seen_ns, &mut Vec::new())
    }

    /// Whether a rank's records come from another process than before, because its job was started again.
    /// What the one before was in is forgotten then: nobody waits there any more.
    pub(crate) fn starts_again(&mut self, rank: u32, pid: Option<u64>, seen_ns: u64) -> bool {
        if !pid.is_some_and(|pid| self.holders.is_new(rank, pid, seen_ns)) {
            return false;
        }
        for comm in self.comms.values_mut() {
            comm.seats.retain(|_, seat| seat.rank != rank);
        }
        self.comms.retain(|_, comm| !comm.seats.is_empty());
        self.arrivals = self.comms.values().map(Communicator::waiting_arrivals).sum();
        self.stacks.remove(&rank);
        true
    }

    /// The same, and tells when ranks were in collectives.
    pub(crate) fn take(
        &mut self,
        rank: u32,
        node: &str,
        record: &Record<'_>,
        seen_ns: u64,
        waits: &mut Vec<Wait>,
    ) -> bool {
        if record.rank >= record.nranks
            || (self.nodes.len() >= NODES && !self.node_ids.contains_key(node))
            || (self.comms.len() >= COMMUNICATORS && !self.comms.contains_key(record.comm))
        {
            self.refused += 1;
            return false;
        }
        let node = self.node_id(node);
        self.heard.insert(rank, seen_ns);
        if !self.comms.contains_key(record.comm) {
            let id = self.next_comm;
            self.next_comm += 1;
            self.comms.insert(record.comm.into(), Communicator::new(id, record.nranks));
        }
        let Some(comm) = self.comms.get_mut(record.comm) else { return false };
        comm.nranks = comm.nranks.max(record.nranks);
        let mut gap = false;
        if record.is_point_to_point() {
            comm.note_peer(record);
            comm.seats.entry(record.rank).or_insert_with(|| super::seat::Seat::new(rank, node));
        } else if let Some(seq) = record.seq {
            let before = comm.rounds.get(&seq).map_or(0, |round| round.arrivals.len());
            gap = comm.note(record, seq, seen_ns, rank, node);
            self.arrivals += comm.rounds.get(&seq).map_or(0, |round| round.arrivals.len()) - before;
        }
        let (is_blocking, nranks, id) = (comm.is_blocking(), comm.nranks, comm.id);
        if let Some(seq) = record.seq
            && comm.rounds.get(&seq).is_some_and(|round| round.is_complete(nranks))
            && let Some(round) = comm.rounds.remove(&seq)
        {
            self.settle(record.comm, seq, &round, waits);
            // As soon as they can be known; later they are looked at once a second.
            if self.anchors.is_empty() {
                self.set_anchors();
            }
        }
        if let Some(end_ns) = record.end_ns().filter(|_| is_blocking) {
            let seq = record.seq.filter(|_| record.is_barrier());
            waits.push(self.wait(rank, (id, seq), record.start_ns, end_ns, gap));
        }
        self.make_room();
        true
    }

    fn wait(
        &self,
        rank: u32,
        (comm, seq): (u32, Option<u64>),
        start_ns: u64,
        end_ns: u64,
        gap: bool,
    ) -> Wait {
        let anchor = self.anchors.get(&rank).copied();
        let is_mark =
            |seq: &u64| anchor.is_some_and(|anchor| anchor.comm == comm && seq.is_multiple_of(anchor.every));
        Wait { rank, start_ns, end_ns, gap, mark: seq.filter(is_mark), anchor }
    }

    fn settle(&mut self, comm: &str, seq: u64, round: &Round, waits: &mut Vec<Wait>) {
        self.arrivals = self.arrivals.saturating_sub(round.arrivals.len());
        let Some(comm) = self.comms.get_mut(comm) else { return };
        let Some(joined) = comm.join(seq, round, &mut self.clocks) else { return };
        if comm.is_blocking() || !round.is_barrier {
            return;
        }
        // Calls return at once: how long each would have waited for the last one is what its arrival tells.
        let Some((_, latest)) = joined.order.last() else { return };
        let id = comm.id;
        let waited: Vec<(u32, u64, u64)> = joined
            .order
            .iter()
            .filter_map(|(rank, at)| {
                let (seat, arrival) = (comm.seats.get(rank)?, round.arrivals.get(rank)?);
                let end_ns = arrival.start_ns.saturating_add_signed(latest.saturating_sub(*at));
                Some((seat.rank, arrival.start_ns, end_ns))
            })
            .collect();
        waits.extend(
            waited.into_iter().map(|(rank, start, end)| self.wait(rank, (id, Some(seq)), start, end, false)),
        );
    }

    /// The oldest of the communicator with most to remember goes, and it is joined less often from now on.
    fn make_room(&mut self) {
        let most = ARRIVALS * self.heard.len().max(16);
        while self.arrivals > most {
            let fullest = self.comms.values_mut().max_by_key(|comm| comm.rounds.len());
            let Some(comm) = fullest else { return };
            comm.stride = comm.stride.saturating_mul(2).min(1 << 20);
            let stride = comm.stride;
            let before: usize = comm.rounds.values().map(|round| round.arrivals.len()).sum();
            comm.rounds.retain(|seq, _| seq.is_multiple_of(stride));
            let mut after: usize = comm.rounds.values().map(|round| round.arrivals.len()).sum();
            if before == after
                && let Some((_, round)) = comm.rounds.pop_first()
            {
                after -= round.arrivals.len();
            }
            self.arrivals = self.arrivals.saturating_sub(before - after);
            if before == after {
                return;
            }
        }
    }

    /// Once a second or so: gives up on ranks that do not tell, and finds the clocks anew.
    pub(crate) fn tick(&mut self, now_ns: u64, waits: &mut Vec<Wait>) {
        let mut late = Vec::new();
        for (name, comm) in &self.comms {
            for (seq, round) in &comm.rounds {
                let is_over = round.arrivals.values().all(|arrival| arrival.end_ns.is_some());
                if is_over && now_ns.saturating_sub(round.first_seen_ns) > PATIENCE_NS {
                    late.push((name.clone(), *seq));
                }
            }
        }
        for (name, seq) in late {
            if let Some(round) = self.comms.get_mut(&name).and_then(|comm| comm.rounds.remove(&seq)) {
                self.settle(&name, seq, &round, waits);
            }
        }
        self.clocks.resolve(self.nodes.len());
        self.set_anchors();
    }

    /// Each rank is measured from one meeting to another in the largest communicator that it is in.
    fn set_anchors(&mut self) {
        let mut anchors: BTreeMap<u32, (usize, Anchor)> = BTreeMap::new();
        for comm in self.comms.values_mut().filter(|comm| comm.has_collectives) {
            let Some(every) = comm.every(STRETCH_NS) else { continue };
            let anchor = Anchor { comm: comm.id, every };
            for seat in comm.seats.values() {
                let best = anchors.entry(seat.rank).or_insert((0, anchor));
                if comm.seats.len() > best.0 {
                    *best = (comm.seats.len(), anchor);
                }
            }
        }
        self.anchors = anchors.into_iter().map(|(rank, (_, anchor))| (rank, anchor)).collect();
    }

    /// A rank says where it is stuck.
    pub fn stuck(&mut self, rank: u32, node: &str, stuck: &Stuck<'_>, seen_ns: u64) {
        const FRAMES: usize = 64;
        let node = self.node_id(node);
        self.heard.insert(rank, seen_ns);
        let stack = stuck.stack.iter().take(FRAMES).cloned().collect();
        self.stacks.insert(rank, StackNote { stack, seen_ns });
        let (Some(comm), Some(seq)) = (stuck.comm, stuck.seq) else { return };
        let Some(comm) = self.comms.get_mut(comm) else { return };
        let Some(seat) = comm.seats.values_mut().find(|seat| seat.rank == rank) else { return };
        (seat.node, seat.seen_ns) = (node, seen_ns);
        if seq >= seat.last_seq {
            let shape = seat.last_shape;
            seat.last_seq = seq;
            seat.runs(seq, super::seat::Running { since_seen_ns: seen_ns, shape });
        }
    }

    /// A rank is alive, whatever it told.
    pub fn heard_of(&mut self, rank: u32, seen_ns: u64) {
        if let Some(heard) = self.heard.get_mut(&rank) {
            *heard = seen_ns;
        }
    }

    /// Collectives that some ranks have been in for longer than `after_ns` without an end, and whom they wait for.
    pub fn autopsies(&self, cluster: &str, job: &str, now_ns: u64, after_ns: u64) -> Vec<Autopsy> {
        hang::autopsies(self, cluster, job, now_ns, after_ns)
    }

    /// The clocks of all nodes, as of the last judgement.
    pub fn clocks(&self) -> Vec<Clock> {
        let Some(reference) = self.nodes.first() else { return Vec::new() };
        self.nodes
            .iter()
            .enumerate()
            .map(|(node, name)| {
                let known = self.clocks.of(node as u32);
                Clock {
                    node: name.clone(),
                    ahead_ns: known.map(|known| known.ahead_ns),
                    error_ns: known.and_then(|known| known.error_ns),
                    reference: reference.clone(),
                    collectives: known.map_or(0, |known| known.collectives),
                }
            })
            .collect()
    }

    /// By communicator, the largest first.
    pub fn reports(&self) -> Vec<CommunicatorReport> {
        let mut reports: Vec<CommunicatorReport> =
            self.comms.iter().map(|(name, comm)| comm.report(name, &self.nodes)).collect();
        reports.sort_by_key(|report| (std::cmp::Reverse(report.nranks), report.comm.clone()));
        reports
    }

    /// Ranks that do the same work, where the job has a pipeline; nothing where all do.
    pub(crate) fn roles(&self) -> Option<BTreeMap<u32, u32>> {
        roles::roles(self.comms.values())
    }

    fn node_id(&mut self, node: &str) -> u32 {
        if let Some(id) = self.node_ids.get(node) {
            return *id;
        }
        let id = self.nodes.len() as u32;
        self.nodes.push(node.into());
        self.node_ids.insert(node.into(), id);
        id
    }
}

#[cfg(test)]
mod tests {
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
        let told: usize = joiner.comms["0x1"].rounds.values().map(|round| round.arrivals.len()).sum();
        assert_eq!(joiner.arrivals, told);
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
        for comm in 0..COMMUNICATORS {
            assert!(joiner.push(0, "n", &record(&format!("{comm:#x}"), 1, 0, 4, true), 0));
        }
        assert!(!joiner.push(0, "n", &record("one more", 1, 0, 4, true), 0));
        assert_eq!(joiner.refused, 2);
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
        let told = joiner.autopsies("c", "j", 10_000 * MS, 6_000 * MS);
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|hang| hang.kind == super::super::HangKind::Deadlock), "{told:?}");
    }

    #[test]
    fn a_rank_that_nobody_watches_makes_the_answer_uncertain() {
        let mut joiner = Joiner::default();
        for rank in 0..3 {
            joiner.push(rank, "n", &record("0xa", 1, rank, 4, false), MS);
        }
        let told = joiner.autopsies("c", "j", 10_000 * MS, 6_000 * MS);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].unobserved.as_slice(), told[0].certain), ([3].as_slice(), false));
        assert_eq!(
            told[0].said,
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
}
