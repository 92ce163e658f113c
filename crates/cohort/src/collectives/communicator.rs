//! The ranks that call collectives together.

use super::clocks::{Clocks, Sight};
use super::record::Record;
use super::report::{CommunicatorReport, RankLateness, RoundReport};
use super::round::{Arrival, Round};
use super::seat::{Running, Seat};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Shapes, pairs that wait and pairs that send, at most; of small communicators so many a seat.
const SHAPES: usize = 128;
const SHAPES_A_SEAT: usize = 16;
const A_SEAT: usize = 64;
/// Times between collectives that are remembered.
const GAPS: usize = 64;
const RECENT: usize = 16;
const PAIRS: usize = 4096;
/// Sends and receives between more pairs are taken as between all.
const EDGES: usize = 4096;
/// Waits of one batch, for the interval of what a rank costs.
const BATCH_NS: u64 = 10_000_000_000;
/// What a host may take to notice an end on the same machine.
const SLACK_NS: u64 = 50_000;
/// Counters of how often calls ended when they should are halved beyond this, so that what changes is noticed.
const CHECKS: u32 = 256;

/// What was called: ranks must agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub op: String,
    count: u64,
    datatype: String,
    reduce_op: String,
}

impl Shape {
    fn fits(&self, record: &Record<'_>) -> bool {
        self.op == record.op
            && self.count == record.count
            && self.datatype == record.datatype
            && self.reduce_op == record.reduce_op
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.op, self.count, self.datatype)?;
        if self.reduce_op.is_empty() { Ok(()) } else { write!(f, " ({})", self.reduce_op) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Communicator {
    /// Among those of the job.
    pub id: u32,
    pub nranks: u32,
    /// By rank in the communicator.
    pub seats: BTreeMap<u32, Seat>,
    /// The seats of each rank of the job.
    pub held: BTreeMap<u32, Vec<u32>>,
    pub rounds: BTreeMap<u64, Round>,
    /// Of all rounds.
    pub arrivals: usize,
    /// When somebody last called something, by the fleet's clock.
    pub seen_ns: u64,
    pub shapes: Vec<Shape>,
    /// One collective in so many is joined, where there are more than can be remembered.
    pub stride: u64,
    pub joined: u64,
    pub mismatched: u64,
    /// The newest collective that ranks disagreed on.
    pub last_mismatch: Option<(u64, BTreeMap<u32, u32>)>,
    checked: u32,
    broken: u32,
    pub has_collectives: bool,
    pub has_point_to_point: bool,
    /// Of ranks in the communicator; empty where agents do not tell the peer.
    pub edges: BTreeSet<(u32, u32)>,
    pub edges_unknown: bool,
    waits: BTreeMap<(u32, u32), u64>,
    recent: VecDeque<RoundReport>,
    batch_from_ns: Option<u64>,
    /// One of its collectives in so many is a mark; nothing as long as its pace is not known.
    every: Option<u64>,
    gaps_ns: VecDeque<f64>,
}

/// When each rank came, and since when by the reference's clock.
pub(super) struct Joined {
    /// (rank in the communicator, arrival by one clock), in order of arrival.
    pub order: Vec<(u32, i64)>,
}

impl Communicator {
    pub(super) fn new(id: u32, nranks: u32) -> Communicator {
        Communicator {
            id,
            nranks,
            seats: BTreeMap::new(),
            held: BTreeMap::new(),
            rounds: BTreeMap::new(),
            arrivals: 0,
            seen_ns: 0,
            shapes: Vec::new(),
            stride: 1,
            joined: 0,
            mismatched: 0,
            last_mismatch: None,
            checked: 0,
            broken: 0,
            has_collectives: false,
            has_point_to_point: false,
            edges: BTreeSet::new(),
            edges_unknown: false,
            waits: BTreeMap::new(),
            recent: VecDeque::new(),
            batch_from_ns: None,
            every: None,
            gaps_ns: VecDeque::new(),
        }
    }

    /// The time between its collectives, on average of the newest.
    fn gap_ns(&self) -> Option<f64> {
        let count = self.gaps_ns.len();
        (count >= GAPS / 4).then(|| self.gaps_ns.iter().sum::<f64>() / count as f64)
    }

    /// One of its collectives in so many is a mark, so that from one to the next it takes about `stretch_ns`. A power of two,
    /// and another one only if it is far off: whoever changes starts afresh, and a rank that is slow now and then makes the
    /// steps of all much longer now and then.
    pub(super) fn every(&mut self, stretch_ns: f64) -> Option<u64> {
        let wanted = (stretch_ns / self.gap_ns()?.max(1.0)).log2();
        let fits = |every: &u64| (-2.2..3.2).contains(&(every.ilog2() as f64 - wanted));
        let nearest = || 1 << (wanted.ceil().max(0.0) as u32).min(20);
        let every = self.every.filter(fits).unwrap_or_else(nearest);
        self.every = Some(every);
        Some(every)
    }

    pub(super) fn shape(&mut self, record: &Record<'_>) -> u32 {
        if let Some(known) = self.shapes.iter().rposition(|shape| shape.fits(record)) {
            return known as u32;
        }
        let shape = Shape {
            op: record.op.into(),
            count: record.count,
            datatype: record.datatype.into(),
            reduce_op: record.reduce_op.into(),
        };
        // The last one stands for all that come after too many.
        let max = (SHAPES_A_SEAT * self.seats.len()).clamp(SHAPES_A_SEAT, SHAPES);
        self.shapes.truncate(max.max(self.shapes.len().min(SHAPES)) - 1);
        self.shapes.push(shape);
        self.shapes.len() as u32 - 1
    }

    pub(super) fn shape_text(&self, shape: u32) -> String {
        self.shapes.get(shape as usize).map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn note_peer(&mut self, record: &Record<'_>) {
        self.has_point_to_point = true;
        match record.peer {
            Some(peer) if self.edges.len() < EDGES.min(A_SEAT * self.seats.len()) => {
                if peer != record.rank {
                    self.edges.insert((peer.min(record.rank), peer.max(record.rank)));
                }
            }
            _ => self.edges_unknown = true,
        }
    }

    /// Everybody sends to everybody: an exchange among equals, not a pipeline.
    pub(super) fn is_exchange(&self) -> bool {
        let ranks = self.seats.len();
        !self.edges_unknown && ranks > 2 && self.edges.len() == ranks * (ranks - 1) / 2
    }

    /// A call of a rank. Tells whether calls of it are missing before this one.
    pub(super) fn note(&mut self, record: &Record<'_>, seq: u64, seen_ns: u64, rank: u32, node: u32) -> bool {
        let shape = self.shape(record);
        self.has_collectives = true;
        let seat = self.sit(record.rank, rank, node);
        let gap = seat.seen_ns > 0 && seq > seat.last_seq.saturating_add(1);
        (seat.node, seat.seen_ns) = (node, seen_ns);
        let is_next = seat.last_seq.checked_add(1) == Some(seq) && seat.last_start_ns > 0;
        let since = is_next.then(|| record.start_ns.saturating_sub(seat.last_start_ns) as f64);
        if seq >= seat.last_seq {
            (seat.last_seq, seat.last_shape, seat.last_start_ns) = (seq, shape, record.start_ns);
        }
        match record.duration_ns {
            Some(_) => seat.done(seq),
            None => seat.runs(seq, Running { since_seen_ns: seen_ns, shape }),
        }
        if let Some(since) = since {
            if self.gaps_ns.len() == GAPS {
                self.gaps_ns.pop_front();
            }
            self.gaps_ns.push_back(since);
        }
        if seq.is_multiple_of(self.stride) {
            let round = self.rounds.entry(seq).or_insert_with(|| Round::new(seen_ns, record.is_barrier()));
            let arrival = Arrival { node, start_ns: record.start_ns, end_ns: record.end_ns(), shape };
            self.arrivals += usize::from(round.put(record.rank, arrival));
        }
        gap
    }

    /// The end of a call is the end of the collective, as far as ranks on one clock tell.
    pub(super) fn is_blocking(&self) -> bool {
        self.checked < 8 || self.broken * 10 < self.checked
    }

    /// Compares the arrivals of a collective: for clocks, for calls that do not match, and for lateness.
    pub(super) fn join(&mut self, seq: u64, round: &Round, clocks: &mut Clocks) -> Option<Joined> {
        self.check_shapes(seq, round);
        let sights = sights(round);
        if round.is_barrier {
            self.check_ends(round);
            clocks.see(&sights);
        }
        let mut order = self.arrivals(round, sights.len(), clocks)?;
        if order.len() < 2 {
            return None;
        }
        order.sort_by_key(|(rank, at)| (*at, *rank));
        self.count(seq, round, &order);
        Some(Joined { order })
    }

    fn check_shapes(&mut self, seq: u64, round: &Round) {
        let mut shapes = round.arrivals.values().map(|arrival| arrival.shape);
        let first = shapes.next();
        if shapes.any(|shape| Some(shape) != first) {
            self.mismatched += 1;
            let by_rank = round.arrivals.iter().map(|(rank, arrival)| (*rank, arrival.shape)).collect();
            self.last_mismatch = Some((seq, by_rank));
        }
    }

    fn check_ends(&mut self, round: &Round) {
        let mut clocks: BTreeMap<u32, (u64, u64, u32)> = BTreeMap::new();
        for arrival in round.arrivals.values() {
            let Some(end_ns) = arrival.end_ns else { continue };
            let (begun, done, ranks) = clocks.entry(arrival.node).or_insert((0, u64::MAX, 0));
            (*begun, *done, *ranks) = ((*begun).max(arrival.start_ns), (*done).min(end_ns), *ranks + 1);
        }
        for (begun, done, _) in clocks.into_values().filter(|(_, _, ranks)| *ranks > 1) {
            self.checked += 1;
            self.broken += u32::from(begun > done.saturating_add(SLACK_NS));
        }
        if self.checked > CHECKS {
            (self.checked, self.broken) = (self.checked / 2, self.broken / 2);
        }
    }

    /// By one clock: where there are several, aligned; where that is not possible, back from the common end.
    fn arrivals(&self, round: &Round, nodes: usize, clocks: &Clocks) -> Option<Vec<(u32, i64)>> {
        let one_clock = nodes <= 1
            && round
                .arrivals
                .values()
                .all(|a| Some(a.node) == round.arrivals.values().next().map(|b| b.node));
        if one_clock {
            return Some(round.arrivals.iter().map(|(rank, a)| (*rank, a.start_ns as i64)).collect());
        }
        let aligned: Option<Vec<(u32, i64)>> = round
            .arrivals
            .iter()
            .map(|(rank, arrival)| {
                let known = clocks.of(arrival.node).filter(|known| known.error_ns.is_some())?;
                Some((*rank, (arrival.start_ns as i64).saturating_sub(known.ahead_ns)))
            })
            .collect();
        if aligned.is_some() {
            return aligned;
        }
        if !round.is_barrier || !self.is_blocking() {
            return None;
        }
        round
            .arrivals
            .iter()
            .map(|(rank, arrival)| Some((*rank, -(arrival.end_ns?.saturating_sub(arrival.start_ns) as i64))))
            .collect()
    }

    fn count(&mut self, seq: u64, round: &Round, order: &[(u32, i64)]) {
        let [(_, first), .., (last, latest)] = order else { return };
        let before = order.get(order.len().wrapping_sub(2)).map_or(*latest, |(_, at)| *at);
        let middle = order[order.len() / 2].1;
        let max_waits = PAIRS.min(A_SEAT * self.seats.len());
        let mut kept_waiting = 0;
        for (rank, at) in order {
            let waited = latest.saturating_sub(*at).max(0) as u64;
            kept_waiting += waited;
            if let Some(seat) = self.seats.get_mut(rank) {
                seat.late(at.saturating_sub(middle));
                seat.waited_ns += waited;
            }
            if rank != last
                && waited > 0
                && (self.waits.len() < max_waits || self.waits.contains_key(&(*rank, *last)))
            {
                *self.waits.entry((*rank, *last)).or_default() += waited;
            }
        }
        if let Some(seat) = self.seats.get_mut(last) {
            seat.came_last(latest.saturating_sub(before).max(0) as u64, kept_waiting);
        }
        self.joined += 1;
        self.remember(seq, round, order, *first, *latest);
        let now = round.arrivals.values().next().map_or(0, |arrival| arrival.start_ns);
        let from = *self.batch_from_ns.get_or_insert(now);
        if now.abs_diff(from) >= BATCH_NS {
            let wall = now.abs_diff(from) / self.stride.max(1);
            self.seats.values_mut().for_each(|seat| seat.batch(wall));
            self.batch_from_ns = Some(now);
        }
    }

    fn remember(&mut self, seq: u64, round: &Round, order: &[(u32, i64)], first: i64, latest: i64) {
        if self.recent.len() == RECENT {
            self.recent.pop_back();
        }
        let shape =
            round.arrivals.values().next().and_then(|arrival| self.shapes.get(arrival.shape as usize));
        let tail = order.len().saturating_sub(RECENT);
        let rank = |rank: &u32| self.seats.get(rank).map_or(*rank, |seat| seat.rank);
        self.recent.push_front(RoundReport {
            seq,
            op: shape.map(|shape| shape.op.clone()).unwrap_or_default(),
            spread_ns: latest.saturating_sub(first).max(0) as u64,
            order: order[tail..]
                .iter()
                .map(|(r, at)| (rank(r), at.saturating_sub(first).max(0) as u64))
                .collect(),
        });
    }

    pub(super) fn report(&self, comm: &str, nodes: &[String]) -> CommunicatorReport {
        let rank = |rank: &u32| self.seats.get(rank).map_or(*rank, |seat| seat.rank);
        let mut ranks: Vec<RankLateness> = self
            .seats
            .values()
            .map(|seat| RankLateness {
                rank: seat.rank,
                node: nodes.get(seat.node as usize).cloned().unwrap_or_default(),
                joined: seat.joined,
                last: seat.last,
                median_late_ns: seat.median_late_ns(),
                kept_waiting_ns: seat.kept_waiting_ns,
                alone_ns: seat.alone_ns,
                waited_ns: seat.waited_ns,
                saved_shares: seat.saved().collect(),
            })
            .collect();
        ranks.sort_by_key(|rank| (std::cmp::Reverse(rank.kept_waiting_ns), rank.rank));
        let mut waits: Vec<(u32, u32, u64)> =
            self.waits.iter().map(|((by, of), ns)| (rank(by), rank(of), *ns)).collect();
        waits.sort_by_key(|(by, of, ns)| (std::cmp::Reverse(*ns), *by, *of));
        CommunicatorReport {
            comm: comm.into(),
            nranks: self.nranks,
            last_seq: self.seats.values().map(|seat| seat.last_seq).max().unwrap_or(0),
            joined: self.joined,
            stride: self.stride,
            blocking: self.is_blocking(),
            ranks,
            rounds: self.recent.iter().cloned().collect(),
            waits,
        }
    }
}

/// By node, that of the lowest rank first.
fn sights(round: &Round) -> Vec<(u32, Sight)> {
    let mut sights: Vec<(u32, Sight)> = Vec::new();
    let mut at: BTreeMap<u32, usize> = BTreeMap::new();
    for arrival in round.arrivals.values() {
        let Some(done_ns) = arrival.end_ns else { continue };
        let place = *at.entry(arrival.node).or_insert_with(|| {
            sights.push((arrival.node, Sight { begun_ns: arrival.start_ns, done_ns }));
            sights.len() - 1
        });
        let (_, sight) = &mut sights[place];
        sight.begun_ns = sight.begun_ns.max(arrival.start_ns);
        sight.done_ns = sight.done_ns.min(done_ns);
    }
    sights
}
