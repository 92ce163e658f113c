//! The agents of a simulated job: what they push, and when.

use super::machine::{Call, Lap, Machine};
use super::plan::Plan;
use super::random::Random;
use crate::Signal;
use crate::collectives::{Record, Stuck};
use gpuwhy_model::Cause;
use std::collections::VecDeque;
use std::sync::Arc;

/// Of a step, what the host is busy for; the rest is waiting for its GPU.
const HOST_SHARE: f64 = 0.6;
/// Agents tell a stack of calls that last so long.
const STUCK_SECONDS: f64 = 3.0;

/// What one agent sends at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    pub rank: u32,
    pub node: String,
    /// By the clock of the fleet.
    pub seen_ns: u64,
    pub samples: Vec<(Signal, f64)>,
    pub calls: Vec<Call>,
    /// By how much the clock of its node is ahead now.
    pub ahead_ns: i64,
    /// A stack, of a rank that is stuck.
    pub stack: Vec<String>,
    /// What it is stuck in, where it is a collective.
    pub stuck_in: Option<(Arc<str>, u64)>,
    begin_ns: u64,
}

impl Push {
    /// A time of a call, as the node's clock tells it.
    pub fn node_ns(&self, seconds: f64) -> u64 {
        (self.begin_ns + (seconds * 1e9) as u64).saturating_add_signed(self.ahead_ns)
    }

    /// A call as it is told.
    pub fn record<'a>(&self, call: &'a Call) -> Record<'a> {
        let start_ns = self.node_ns(call.start);
        Record {
            comm: &call.comm,
            seq: call.seq,
            op: call.op,
            rank: call.rank,
            nranks: call.nranks,
            count: call.count,
            datatype: "float32",
            reduce_op: if call.seq.is_some() { "sum" } else { "" },
            peer: call.peer,
            start_ns,
            duration_ns: call.end.map(|end| self.node_ns(end).saturating_sub(start_ns)),
            pid: None,
        }
    }

    pub fn stuck(&self) -> Option<Stuck<'_>> {
        (!self.stack.is_empty()).then(|| Stuck {
            comm: self.stuck_in.as_ref().map(|(comm, _)| &**comm),
            seq: self.stuck_in.as_ref().map(|(_, seq)| *seq),
            op: "",
            since_ns: 0,
            stack: &self.stack,
        })
    }
}

#[derive(Debug, Clone)]
struct Agent {
    next: f64,
    /// Told as running; told again when over.
    running: Vec<Call>,
}

/// Takes those at the front that are such.
fn first<T>(from: &mut VecDeque<T>, is_such: impl Fn(&T) -> bool) -> Vec<T> {
    let end = from.iter().position(|one| !is_such(one)).unwrap_or(from.len());
    from.drain(..end).collect()
}

/// All agents of a job.
#[derive(Debug, Clone)]
pub struct Agents {
    plan: Plan,
    random: Random,
    agents: Vec<Agent>,
    /// By node: seconds ahead, and drift.
    clocks: Vec<(f64, f64)>,
}

impl Agents {
    pub fn new(plan: &Plan) -> Agents {
        let mut random = Random::new(plan.seed ^ 0x00a9_e475);
        let agents = (0..plan.ranks)
            .map(|_| Agent { next: random.between(0.0, plan.push_seconds), running: Vec::new() })
            .collect();
        let (off, drift) = (plan.clock_offset_seconds, plan.clock_drift_ppm * 1e-6);
        let clocks = (0..plan.ranks.div_ceil(plan.ranks_a_node.max(1)))
            .map(|_| (random.between(-off, off), random.between(-drift, drift)))
            .collect();
        Agents { plan: plan.clone(), random, agents, clocks }
    }

    /// By how much the clock of a node is ahead of the first node's.
    pub fn truly_ahead_ns(&self, node: usize, seconds: f64) -> i64 {
        self.ahead_ns(node, seconds) - self.ahead_ns(0, seconds)
    }

    fn ahead_ns(&self, node: usize, seconds: f64) -> i64 {
        let (offset, drift) = self.clocks.get(node).copied().unwrap_or_default();
        let steps =
            self.plan.clock_steps.iter().filter(|step| step.node == node && step.at_seconds <= seconds);
        let stepped: f64 = steps.map(|step| step.by_seconds).sum();
        ((offset + drift * seconds + stepped) * 1e9) as i64
    }

    /// What is pushed until this time, which the machine has run to.
    pub fn pushes_to(&mut self, machine: &mut Machine, seconds: f64) -> Vec<Push> {
        let mut pushes = Vec::new();
        for rank in 0..self.agents.len() {
            while self.agents[rank].next <= seconds {
                let at = self.agents[rank].next;
                pushes.push(self.push(machine, rank, at));
                self.agents[rank].next = at + self.plan.push_seconds * self.random.between(0.95, 1.05);
            }
        }
        pushes.sort_by_key(|push| push.seen_ns);
        pushes
    }

    fn push(&mut self, machine: &mut Machine, rank: usize, at: f64) -> Push {
        let node = rank / self.plan.ranks_a_node.max(1);
        let mut push = Push {
            rank: rank as u32,
            node: format!("node{node}"),
            seen_ns: self.plan.fleet_ns(at + self.random.between(0.001, 0.05)),
            samples: self.samples(machine, rank, at),
            calls: Vec::new(),
            ahead_ns: self.ahead_ns(node, at),
            stack: Vec::new(),
            stuck_in: None,
            begin_ns: self.plan.begin_ns,
        };
        let state = &mut machine.ranks[rank];
        let agent = &mut self.agents[rank];
        let is_over = |call: &Call| call.end.is_some_and(|end| end <= at);
        push.calls.extend(agent.running.extract_if(.., |call| is_over(call)));
        for call in first(&mut state.calls, |call| call.start <= at) {
            if is_over(&call) {
                push.calls.push(call);
            } else {
                push.calls.push(Call { end: None, ..call.clone() });
                agent.running.push(call);
            }
        }
        if !self.plan.has_records {
            push.calls.clear();
        }
        if let Some(since) = state.stopped.filter(|since| at - since > STUCK_SECONDS) {
            push.stack = vec![format!("data.py:{} load", 40 + since as u32 % 9), "train.py:88 main".into()];
        } else if let Some(call) = agent.running.first()
            && at - call.start > STUCK_SECONDS
        {
            push.stack = vec!["ncclAllReduce".into(), "train.py:120 step".into()];
            push.stuck_in = call.seq.map(|seq| (call.comm.clone(), seq));
        }
        push
    }

    fn samples(&mut self, machine: &mut Machine, rank: usize, at: f64) -> Vec<(Signal, f64)> {
        let laps = &mut machine.ranks[rank].laps;
        let fresh = first(laps, |lap| lap.end <= at);
        let mut samples = Vec::new();
        if !fresh.is_empty() {
            let mean = |of: fn(&Lap) -> f64| fresh.iter().map(of).sum::<f64>() / fresh.len() as f64;
            let (step, taken) = (mean(|lap| lap.seconds), mean(|lap| lap.taken));
            let own = HOST_SHARE * (mean(|lap| lap.own) - taken) + taken;
            samples.push((Signal::StepSeconds, step));
            samples.push((Signal::OwnSeconds, own));
            samples.push((Signal::Health, 1.0 - own / step));
            let share = taken / step;
            for cause in [Cause::CpuPreempted, Cause::IoFile, Cause::SelfSleep] {
                let planted = self.plan.faults.iter().any(|fault| fault.cause == cause);
                let share = if planted { share } else { 0.0 };
                samples.push((Signal::Blame(cause), share + 0.002 * self.random.share()));
            }
        }
        samples.push((Signal::ClockHertz, 1.98e9 * (1.0 + 0.003 * self.random.normal())));
        samples.push((Signal::IdleRatio, (0.05 + 0.01 * self.random.normal()).max(0.0)));
        samples.push((Signal::LaunchRate, 9000.0 * (1.0 + 0.02 * self.random.normal())));
        samples
    }
}
