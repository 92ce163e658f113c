//! The ranks at work. Time is true here; agents see it through the clocks of their nodes.

use super::plan::{Fault, FaultKind, Layout, Plan};
use super::random::Random;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A call of a collective or a send or receive.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub comm: Arc<str>,
    pub seq: Option<u64>,
    pub op: &'static str,
    /// In the communicator.
    pub rank: u32,
    pub nranks: u32,
    pub count: u64,
    pub peer: Option<u32>,
    /// In seconds of true time.
    pub start: f64,
    /// Nothing while it runs.
    pub end: Option<f64>,
}

/// A step of a rank, for its gauges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lap {
    /// When it was over.
    pub end: f64,
    pub seconds: f64,
    pub own: f64,
    /// Of its own time, what the fault took.
    pub taken: f64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Rank {
    pub at: f64,
    /// Until an agent takes them.
    pub calls: VecDeque<Call>,
    pub laps: VecDeque<Lap>,
    own: f64,
    taken: f64,
    lap_from: f64,
    bias: f64,
    /// Its own time of trouble, where it has stopped for good.
    pub stopped: Option<f64>,
}

/// A job that runs.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) plan: Plan,
    pub(super) ranks: Vec<Rank>,
    random: Random,
    comms: BTreeMap<String, (Arc<str>, u64)>,
    /// When it came to a stop, if it did.
    pub stopped: Option<f64>,
    mismatch: Option<usize>,
}

impl Machine {
    pub fn new(plan: &Plan) -> Machine {
        let mut random = Random::new(plan.seed);
        let bias = plan.noise.bias;
        let ranks = (0..plan.ranks)
            .map(|_| Rank {
                bias: 1.0 + (bias * random.normal()).clamp(-2.0 * bias, 2.0 * bias),
                ..Rank::default()
            })
            .collect();
        Machine { plan: plan.clone(), ranks, random, comms: BTreeMap::new(), stopped: None, mismatch: None }
    }

    /// Works until all ranks are beyond this time, or the job is stuck.
    pub fn run_to(&mut self, seconds: f64) {
        while self.stopped.is_none() && self.ranks.iter().any(|rank| rank.at < seconds) {
            self.step();
        }
    }

    fn step(&mut self) {
        match self.plan.layout {
            Layout::Data { collectives } => {
                let all: Vec<usize> = (0..self.ranks.len()).collect();
                let piece = self.plan.step_seconds / collectives.max(1) as f64;
                for at in 0..collectives {
                    all.iter().for_each(|rank| self.work(*rank, piece, at == 0));
                    self.collective("0xda7a", &all, "ALL_REDUCE", 1000 + at as u64);
                    self.laps(&all);
                }
            }
            Layout::Pipeline { stages, tensor, replicas, microbatches } => {
                self.pipeline(stages, tensor, replicas, microbatches);
            }
        }
    }

    /// Stages first: a rank's number is (replica, stage, tensor).
    fn pipeline(&mut self, stages: usize, tensor: usize, replicas: usize, microbatches: usize) {
        let rank = |replica: usize, stage: usize, part: usize| (replica * stages + stage) * tensor + part;
        let piece = self.plan.step_seconds / (3 * (microbatches + stages)) as f64;
        for replica in 0..replicas {
            // There and back: what a stage waits for is when the one before it was done with the same microbatch.
            for back in [false, true] {
                let mut ready = vec![vec![0.0; tensor]; microbatches];
                for at in 0..stages {
                    let stage = if back { stages - 1 - at } else { at };
                    for (batch, ready) in ready.iter_mut().enumerate() {
                        let team: Vec<usize> = (0..tensor).map(|part| rank(replica, stage, part)).collect();
                        for (part, member) in team.iter().enumerate() {
                            if at > 0 {
                                let from = rank(replica, if back { stage + 1 } else { stage - 1 }, part);
                                self.receive(*member, from, ready[part], stages, tensor);
                            }
                            // The last stage has the head of the model, too.
                            let more = if stage + 1 == stages { 1.4 } else { 1.0 };
                            let work = piece * more * if back { 2.0 } else { 1.0 };
                            self.work(*member, work, batch == 0 && !back);
                        }
                        if tensor > 1 {
                            self.collective(
                                &format!("0x7e{replica:02x}{stage:02x}"),
                                &team,
                                "ALL_REDUCE",
                                512,
                            );
                        }
                        for (part, member) in team.iter().enumerate() {
                            ready[part] = self.ranks[*member].at;
                            if at + 1 < stages {
                                let to = rank(replica, if back { stage - 1 } else { stage + 1 }, part);
                                self.send(*member, to, stages, tensor);
                            }
                        }
                    }
                }
            }
        }
        for stage in 0..stages {
            for part in 0..tensor {
                let peers: Vec<usize> = (0..replicas).map(|replica| rank(replica, stage, part)).collect();
                if replicas > 1 {
                    self.collective(&format!("0xd0{stage:02x}{part:02x}"), &peers, "ALL_REDUCE", 4096);
                }
            }
        }
        let all: Vec<usize> = (0..self.ranks.len()).collect();
        self.collective("0xa11", &all, "ALL_REDUCE", 1);
        self.laps(&all);
    }

    fn active(&self, rank: usize) -> Vec<Fault> {
        let at = self.ranks[rank].at;
        let is_on = |fault: &&Fault| {
            fault.rank.is_none_or(|faulty| faulty == rank)
                && (fault.from_seconds..fault.to_seconds).contains(&at)
        };
        self.plan.faults.iter().filter(is_on).copied().collect()
    }

    /// A piece of work; `begins` is true once a step.
    fn work(&mut self, rank: usize, seconds: f64, begins: bool) {
        if self.stopped.is_some() || self.ranks[rank].stopped.is_some() {
            return;
        }
        let noise = self.plan.noise;
        let mut own = seconds * self.ranks[rank].bias * (1.0 + noise.sigma * self.random.normal()).max(0.5);
        if begins && self.random.share() < noise.spikes {
            own += (noise.spike * self.random.pareto()).min(3.0) * self.plan.step_seconds;
        }
        let mut taken = 0.0;
        for fault in self.active(rank) {
            let since = self.ranks[rank].at - fault.from_seconds;
            taken += match fault.kind {
                FaultKind::Slow { share } => share * seconds,
                FaultKind::Sleep { seconds } if begins => seconds,
                FaultKind::NowAndThen { chance, seconds } if begins && self.random.share() < chance => {
                    seconds
                }
                FaultKind::Bursts { share, on_seconds, off_seconds }
                    if since % (on_seconds + off_seconds) < on_seconds =>
                {
                    share * seconds
                }
                FaultKind::Hang => {
                    self.ranks[rank].stopped = Some(self.ranks[rank].at);
                    return;
                }
                FaultKind::Mismatch => {
                    self.mismatch = Some(rank);
                    0.0
                }
                _ => 0.0,
            };
        }
        let rank = &mut self.ranks[rank];
        rank.at += own + taken;
        rank.own += own + taken;
        rank.taken += taken;
    }

    fn collective(&mut self, comm: &str, ranks: &[usize], op: &'static str, count: u64) {
        if self.stopped.is_some() {
            return;
        }
        let (comm, seq) = self.called(comm);
        let missing = ranks.iter().any(|rank| self.ranks[*rank].stopped.is_some());
        let disagree = self.mismatch.is_some_and(|odd| ranks.contains(&odd));
        let last = ranks.iter().map(|rank| self.ranks[*rank].at).fold(0.0, f64::max);
        let end = last + self.plan.transfer_seconds * self.random.between(0.8, 1.3);
        for (place, rank) in ranks.iter().enumerate() {
            if self.ranks[*rank].stopped.is_some() {
                continue;
            }
            // Hosts are told a little after the end, now and then a lot.
            let noticed = if self.random.share() < 0.005 { 1e-3 } else { 3e-5 };
            let end = end + noticed * self.random.exponential();
            let start = self.ranks[*rank].at;
            let odd = u64::from(self.mismatch == Some(*rank) && disagree);
            let reported = if self.plan.is_blocking { end } else { start + 1e-5 };
            self.ranks[*rank].calls.push_back(Call {
                comm: comm.clone(),
                seq: Some(seq),
                op,
                rank: place as u32,
                nranks: ranks.len() as u32,
                count: count + odd,
                peer: None,
                start,
                end: (!missing && !disagree).then_some(reported),
            });
            self.ranks[*rank].at = end;
        }
        if missing || disagree {
            self.stopped = Some(last);
        }
    }

    /// The communicator, and how many calls of it there were.
    fn called(&mut self, comm: &str) -> (Arc<str>, u64) {
        if !self.comms.contains_key(comm) {
            self.comms.insert(comm.into(), (comm.into(), 0));
        }
        let Some((name, seq)) = self.comms.get_mut(comm) else { return (comm.into(), 0) };
        *seq += 1;
        (name.clone(), *seq)
    }

    fn send(&mut self, rank: usize, to: usize, stages: usize, tensor: usize) {
        self.message(rank, to, stages, tensor, "SEND", 2e-5);
    }

    fn receive(&mut self, rank: usize, from: usize, ready: f64, stages: usize, tensor: usize) {
        let wait = (ready - self.ranks[rank].at).max(0.0) + 5e-5;
        self.message(rank, from, stages, tensor, "RECV", wait);
    }

    fn message(
        &mut self,
        rank: usize,
        peer: usize,
        stages: usize,
        tensor: usize,
        op: &'static str,
        takes: f64,
    ) {
        if self.stopped.is_some() || self.ranks[rank].stopped.is_some() {
            return;
        }
        // One communicator for each line of stages.
        let lane = (rank / (stages * tensor), rank % tensor);
        let place = |rank: usize| (rank / tensor % stages) as u32;
        let start = self.ranks[rank].at;
        let (comm, _) = self.called(&format!("0x99{:02x}{:02x}", lane.0, lane.1));
        self.ranks[rank].calls.push_back(Call {
            comm,
            seq: None,
            op,
            rank: place(rank),
            nranks: stages as u32,
            count: 8192,
            peer: Some(place(peer)),
            start,
            end: Some(start + takes),
        });
        self.ranks[rank].at += takes;
    }

    fn laps(&mut self, ranks: &[usize]) {
        for rank in ranks {
            let rank = &mut self.ranks[*rank];
            let lap =
                Lap { end: rank.at, seconds: rank.at - rank.lap_from, own: rank.own, taken: rank.taken };
            rank.laps.push_back(lap);
            (rank.own, rank.taken, rank.lap_from) = (0.0, 0.0, rank.at);
        }
    }
}
