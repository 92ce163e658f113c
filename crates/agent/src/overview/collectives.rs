//! Collectives by operation, and the ranks of this host by communicator: who comes late, and who does not come.

use gpuwhy_model::{Collective, Facts};
use std::collections::{BTreeMap, HashMap};

/// Collectives whose end was not seen; nobody may ever ask for it.
const MAX_PENDING: usize = 16_384;
const MAX_COMMUNICATORS: usize = 1024;
/// Collectives of a communicator that some rank has not reached.
const MAX_COLLECTIVES: usize = 256;

#[derive(Debug, Clone, Default)]
pub struct Collectives {
    /// By name of the event, as `ALL_REDUCE`; communicators, groups and the like among them.
    pub by_event: BTreeMap<String, CollectiveSum>,
    /// Those whose end was not yet seen, by process, thread and start.
    pending: HashMap<(u32, u32, u64), String>,
    /// By hash.
    communicators: BTreeMap<u64, Communicator>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectiveSum {
    pub count: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Those that put work on a stream; others make communicators, groups and the like.
    pub work: u64,
    /// Those whose end was seen, and how long the host waited for it.
    pub waited: u64,
    pub wait_ns: u64,
    pub longest_wait_ns: u64,
}

/// How often a rank was the last of its communicator to come, and how long the first had waited then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    pub comm_id_hash: u64,
    pub rank: i32,
    pub pid: u32,
    pub last_times: u64,
    pub late_ns: u64,
    /// Of so many collectives.
    pub of: u64,
}

/// A collective that some ranks have reached and others have not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straggling {
    pub comm_id_hash: u64,
    pub event: String,
    pub seq: u64,
    /// When the first rank came.
    pub since_ns: u64,
    pub nranks: Option<i32>,
    /// Rank and process.
    pub waiting: Vec<(i32, u32)>,
    /// Rank, process, and the last collective it reached.
    pub missing: Vec<(i32, u32, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Communicator {
    nranks: Option<i32>,
    event: String,
    ranks: BTreeMap<i32, Place>,
    /// By sequence number.
    rounds: BTreeMap<u64, Round>,
    seen: u64,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    pid: u32,
    seq: u64,
    start_ns: u64,
    last_times: u64,
    late_ns: u64,
    /// It has given the communicator up.
    left: bool,
}

#[derive(Debug, Clone, Copy)]
struct Round {
    first_ns: u64,
    last_ns: u64,
    last_rank: i32,
    came: usize,
}

impl Collectives {
    pub(super) fn take(&mut self, facts: &Facts) {
        for collective in &facts.collectives {
            self.take_collective(collective);
        }
        for wait in &facts.collective_waits {
            if let Some(event) = self.pending.remove(&(wait.pid, wait.tid, wait.start_ns)) {
                let sum = self.by_event.entry(event).or_default();
                sum.waited += 1;
                sum.wait_ns += wait.wait_ns;
                sum.longest_wait_ns = sum.longest_wait_ns.max(wait.wait_ns);
            }
        }
        if self.pending.len() > MAX_PENDING {
            self.pending.clear();
        }
        while self.communicators.len() > MAX_COMMUNICATORS {
            self.communicators.pop_first();
        }
    }

    fn take_collective(&mut self, collective: &Collective) {
        let call = &collective.call;
        let failed = !matches!(call.ret, 0 | IN_PROGRESS);
        let sum = self.by_event.entry(collective.event.clone()).or_default();
        sum.count += 1;
        sum.bytes += collective.bytes.unwrap_or(0);
        sum.errors += u64::from(failed);
        if matches!(collective.event.as_str(), "COMM_DESTROY" | "COMM_ABORT")
            && let (Some(hash), Some(rank)) = (collective.comm_id_hash, collective.rank)
            && let Some(place) =
                self.communicators.get_mut(&hash).and_then(|known| known.ranks.get_mut(&rank))
        {
            place.left = true;
        }
        if collective.count.is_none() {
            return;
        }
        sum.work += 1;
        // In a capture nothing runs yet.
        if failed || call.capture != 0 {
            return;
        }
        self.pending.insert((call.pid, call.tid, call.start_ns), collective.event.clone());
        if let (Some(hash), Some(rank), Some(seq)) =
            (collective.comm_id_hash, collective.rank, collective.seq)
        {
            self.communicators.entry(hash).or_default().came(collective, rank, seq);
        }
    }

    /// How many are not known to be done, by event.
    pub fn open(&self) -> BTreeMap<&str, u64> {
        let mut open = BTreeMap::new();
        for event in self.pending.values() {
            *open.entry(event.as_str()).or_default() += 1;
        }
        open
    }

    /// Ranks that were the last to come, those that cost most time first.
    pub fn late(&self) -> Vec<Lateness> {
        let mut late: Vec<Lateness> = self
            .communicators
            .iter()
            .flat_map(|(hash, communicator)| {
                let late = communicator.ranks.iter().filter(|(_, place)| place.last_times > 0);
                late.map(|(rank, place)| Lateness {
                    comm_id_hash: *hash,
                    rank: *rank,
                    pid: place.pid,
                    last_times: place.last_times,
                    late_ns: place.late_ns,
                    of: communicator.seen,
                })
            })
            .collect();
        late.sort_by_key(|lateness| std::cmp::Reverse(lateness.late_ns));
        late
    }

    /// Collectives that not all ranks of this host have reached, the oldest first.
    pub fn straggling(&self) -> Vec<Straggling> {
        let mut found: Vec<Straggling> = self
            .communicators
            .iter()
            .filter_map(|(hash, communicator)| communicator.straggling(*hash))
            .collect();
        found.sort_by_key(|straggling| straggling.since_ns);
        found
    }
}

/// What a library in non-blocking mode answers while it works.
const IN_PROGRESS: i32 = 7;

impl Communicator {
    fn came(&mut self, collective: &Collective, rank: i32, seq: u64) {
        let (pid, start_ns) = (collective.call.pid, collective.call.start_ns);
        self.nranks = collective.nranks.or(self.nranks);
        let place = self.ranks.entry(rank).or_default();
        if seq > place.seq {
            *place = Place { pid, seq, start_ns, ..*place };
            self.event.clone_from(&collective.event);
        }
        let round = self.rounds.entry(seq).or_insert(Round {
            first_ns: start_ns,
            last_ns: start_ns,
            last_rank: rank,
            came: 0,
        });
        round.came += 1;
        round.first_ns = round.first_ns.min(start_ns);
        if start_ns > round.last_ns {
            (round.last_ns, round.last_rank) = (start_ns, rank);
        }
        if round.came >= self.ranks.len().max(2)
            && let Some(round) = self.rounds.remove(&seq)
        {
            self.seen += 1;
            if let Some(place) = self.ranks.get_mut(&round.last_rank) {
                place.last_times += 1;
                place.late_ns += round.last_ns - round.first_ns;
            }
        }
        while self.rounds.len() > MAX_COLLECTIVES {
            self.rounds.pop_first();
        }
    }

    fn straggling(&self, comm_id_hash: u64) -> Option<Straggling> {
        let here = || self.ranks.iter().filter(|(_, place)| !place.left);
        let seq = here().map(|(_, place)| place.seq).max()?;
        let (ahead, behind): (Vec<_>, Vec<_>) = here().partition(|(_, place)| place.seq == seq);
        if behind.is_empty() {
            return None;
        }
        Some(Straggling {
            comm_id_hash,
            event: self.event.clone(),
            seq,
            since_ns: ahead.iter().map(|(_, place)| place.start_ns).min()?,
            nranks: self.nranks,
            waiting: ahead.iter().map(|(rank, place)| (**rank, place.pid)).collect(),
            missing: behind.iter().map(|(rank, place)| (**rank, place.pid, place.seq)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Call, CollectiveWait, OpId};

    const MS: u64 = 1_000_000;

    fn call(pid: u32, start_ns: u64) -> Call {
        Call { start_ns, duration_ns: 10, op: OpId(1), pid, tid: pid, ..Call::default() }
    }

    fn reduce(rank: i32, seq: u64, start_ns: u64) -> Collective {
        Collective {
            call: call(100 + rank as u32, start_ns),
            event: "ALL_REDUCE".into(),
            comm: 1,
            comm_id_hash: Some(0xab),
            rank: Some(rank),
            nranks: Some(3),
            seq: Some(seq),
            count: Some(2),
            bytes: Some(8),
            datatype: None,
            reduce_op: None,
            peer: None,
            grouped: false,
        }
    }

    fn facts(collectives: Vec<Collective>) -> Facts {
        Facts { collectives, ..Facts::default() }
    }

    #[test]
    fn the_rank_that_comes_last_is_named() {
        let mut collectives = Collectives::default();
        for seq in 1..=20 {
            let at = seq * 100 * MS;
            // Records come in any order.
            collectives.take(&facts(vec![
                reduce(2, seq, at + 5 * MS),
                reduce(0, seq, at),
                reduce(1, seq, at + MS),
            ]));
        }
        let late = collectives.late();
        assert_eq!((late[0].rank, late[0].pid), (2, 102));
        assert!(late[0].last_times >= 19 && late[0].of >= late[0].last_times, "{late:?}");
        assert_eq!(late[0].late_ns / late[0].last_times, 5 * MS);
        assert!(collectives.straggling().is_empty());
    }

    #[test]
    fn a_rank_that_does_not_come_is_missed_until_it_leaves() {
        let mut collectives = Collectives::default();
        collectives.take(&facts((0..3).map(|rank| reduce(rank, 1, MS)).collect()));
        collectives.take(&facts(vec![reduce(0, 2, 3 * MS), reduce(1, 2, 2 * MS)]));
        let straggling = collectives.straggling();
        assert_eq!((straggling[0].seq, straggling[0].since_ns), (2, 2 * MS));
        assert_eq!(straggling[0].missing, [(2, 102, 1)]);
        assert_eq!(straggling[0].waiting, [(0, 100), (1, 101)]);
        let abort = Collective { event: "COMM_ABORT".into(), count: None, seq: None, ..reduce(2, 0, 9 * MS) };
        collectives.take(&facts(vec![abort]));
        assert!(collectives.straggling().is_empty());
    }

    #[test]
    fn waits_are_summed_and_the_rest_is_open() {
        let mut collectives = Collectives::default();
        collectives.take(&facts(vec![reduce(0, 1, MS), reduce(0, 2, 2 * MS)]));
        let wait = CollectiveWait {
            pid: 100,
            tid: 100,
            start_ns: MS,
            completed_ns: 4 * MS,
            wait_ns: 2 * MS,
            waited_in: OpId(2),
        };
        collectives.take(&Facts { collective_waits: vec![wait], ..Facts::default() });
        let sum = collectives.by_event["ALL_REDUCE"];
        assert_eq!((sum.count, sum.bytes, sum.waited, sum.longest_wait_ns), (2, 16, 1, 2 * MS));
        assert_eq!(collectives.open()["ALL_REDUCE"], 1);
    }
}
