//! Joins the records of a job's ranks by communicator and number.
//!
//! Memory: at most [`ARRIVALS`] arrivals are remembered for each rank until the others have told theirs (about 10 KiB a
//! rank), and [`SEATS`] seats, each with up to 1 KiB of sums. Where collectives come faster than that, one in two is joined,
//! then one in four, and so on. Whatever ranks claim to be, all of it is linear in how many of them there are, and so is the
//! work of a look at it.

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
/// Places in communicators that every rank may have. One may have more as long as all together have no more.
const SEATS: usize = 16;
/// A process may drive so many devices, each with a place of its own in a communicator.
const DEVICES: usize = 16;
/// A rank that moves is on another node than before; so many are known by it first.
const NODES: usize = 16;
/// Nodes whose clocks are compared with one node's.
const PAIRS: usize = 8;
/// Jobs of fewer ranks have the room of so many.
const FEWEST: usize = 16;
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

/// What one rank has taken of the job's room.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    seats: usize,
    nodes: usize,
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
    /// In all communicators.
    seats: usize,
    /// By rank in the job.
    shares: BTreeMap<u32, Share>,
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
        self.comms.values_mut().for_each(|comm| comm.leave(rank));
        self.drop_empty();
        self.stacks.remove(&rank);
        true
    }

    fn drop_empty(&mut self) {
        self.comms.retain(|_, comm| !comm.seats.is_empty());
        self.seats = self.comms.values().map(|comm| comm.seats.len()).sum();
        self.shares.values_mut().for_each(|share| share.seats = 0);
        for (rank, places) in self.comms.values().flat_map(Communicator::holders) {
            self.shares.entry(rank).or_default().seats += places;
        }
        self.arrivals = self.comms.values().map(|comm| comm.arrivals).sum();
    }

    /// Ranks that have not been heard of for so long, and communicators in which nobody has called anything, are no more.
    pub(crate) fn forget(&mut self, now_ns: u64, forget_ns: u64) {
        let is_known = |seen_ns: u64| now_ns.saturating_sub(seen_ns) <= forget_ns;
        let gone: Vec<u32> =
            self.heard.iter().filter(|(_, seen)| !is_known(**seen)).map(|(rank, _)| *rank).collect();
        for rank in gone {
            self.heard.remove(&rank);
            self.stacks.remove(&rank);
            self.holders.forget(rank);
            self.shares.remove(&rank);
            self.comms.values_mut().for_each(|comm| comm.leave(rank));
        }
        self.comms.retain(|_, comm| is_known(comm.seen_ns));
        self.drop_empty();
    }

    /// So many ranks' room there is.
    fn ranks(&self) -> usize {
        self.heard.len().max(FEWEST)
    }

    /// Whether there is room for what a record names: its communicator, its place in it, and its node.
    fn has_room(&self, rank: u32, node: &str, record: &Record<'_>) -> bool {
        let share = self.shares.get(&rank).copied().unwrap_or_default();
        if share.nodes >= NODES && !self.node_ids.contains_key(node) {
            return false;
        }
        let comm = self.comms.get(record.comm);
        if comm.is_some_and(|comm| comm.seats.contains_key(&record.rank)) {
            return true;
        }
        (share.seats < SEATS || self.seats < SEATS * self.ranks())
            && comm.is_none_or(|comm| comm.places(rank).len() < DEVICES)
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
        self.heard.insert(rank, seen_ns);
        if record.rank >= record.nranks || !self.has_room(rank, node, record) {
            self.refused += 1;
            return false;
        }
        let node = self.node_id(rank, node);
        if !self.comms.contains_key(record.comm) {
            let id = self.next_comm;
            self.next_comm += 1;
            self.comms.insert(record.comm.into(), Communicator::new(id, record.nranks));
        }
        let Some(comm) = self.comms.get_mut(record.comm) else { return false };
        comm.nranks = comm.nranks.max(record.nranks);
        comm.seen_ns = comm.seen_ns.max(seen_ns);
        let before = comm.seats.len();
        self.seats -= before;
        self.arrivals -= comm.arrivals;
        let mut gap = false;
        if record.is_point_to_point() {
            comm.sit(record.rank, rank, node);
            comm.note_peer(record);
        } else if let Some(seq) = record.seq {
            gap = comm.note(record, seq, seen_ns, rank, node);
        }
        comm.thin_out(ARRIVALS * comm.seats.len().max(FEWEST));
        if comm.seats.len() > before {
            self.shares.entry(rank).or_default().seats += 1;
        }
        self.seats += comm.seats.len();
        self.arrivals += comm.arrivals;
        let (is_blocking, nranks, id) = (comm.is_blocking(), comm.nranks, comm.id);
        if let Some(seq) = record.seq
            && comm.rounds.get(&seq).is_some_and(|round| round.is_complete(nranks))
            && let Some(round) = comm.take_round(seq)
        {
            self.arrivals = self.arrivals.saturating_sub(round.arrivals.len());
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
        if self.arrivals > ARRIVALS * self.ranks() {
            self.make_room();
        }
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
        let max_pairs = PAIRS * self.ranks();
        let Some(comm) = self.comms.get_mut(comm) else { return };
        self.clocks.set_max_pairs(max_pairs);
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

    /// Those that have more than their part to remember are joined less often: one look at all of them makes room for many
    /// records.
    fn make_room(&mut self) {
        let each = ARRIVALS * self.ranks() / 2 / self.comms.len().max(1);
        for comm in self.comms.values_mut() {
            comm.thin_out(each);
        }
        self.arrivals = self.comms.values().map(|comm| comm.arrivals).sum();
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
            if let Some(round) = self.comms.get_mut(&name).and_then(|comm| comm.take_round(seq)) {
                self.settle(&name, seq, &round, waits);
            }
        }
        self.arrivals = self.comms.values().map(|comm| comm.arrivals).sum();
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
        const MAX_LEN: usize = 512;
        self.heard.insert(rank, seen_ns);
        let share = self.shares.get(&rank).copied().unwrap_or_default();
        if share.nodes >= NODES && !self.node_ids.contains_key(node) {
            self.refused += 1;
            return;
        }
        let node = self.node_id(rank, node);
        let cut = |line: &String| line.chars().take(MAX_LEN).collect();
        let stack = stuck.stack.iter().take(FRAMES).map(cut).collect();
        self.stacks.insert(rank, StackNote { stack, seen_ns });
        let (Some(comm), Some(seq)) = (stuck.comm, stuck.seq) else { return };
        let Some(comm) = self.comms.get_mut(comm) else { return };
        let Some(place) = comm.places(rank).first().copied() else { return };
        let Some(seat) = comm.seats.get_mut(&place) else { return };
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

    fn node_id(&mut self, rank: u32, node: &str) -> u32 {
        if let Some(id) = self.node_ids.get(node) {
            return *id;
        }
        self.shares.entry(rank).or_default().nodes += 1;
        let id = self.nodes.len() as u32;
        self.nodes.push(node.into());
        self.node_ids.insert(node.into(), id);
        id
    }
}

#[cfg(test)]
mod tests;
