//! What a fleet is told of the ranks on this host, every second or two: signals that peers can be compared by, collectives
//! that ranks can be joined by, and calls that do not return. Pure: time comes in with the data.

mod collectives;
mod lines;
mod open;
mod otlp;
mod places;
mod rank;
mod standing;
mod stuck;

pub use standing::{Advice, Mode, Reported, Standing};

use crate::otlp::{Request, Resource};
use collectives::Pending;
use gpuwhy_model::{Batch, Facts, Family, Layer, OpId, OpInfo};
use lines::Lines;
use places::Places;
use rank::Rank;
use std::collections::HashMap;
use stuck::Stuck;

/// Processes told of at a time; a host has few ranks.
const MAX_RANKS: usize = 256;

/// The ranks of this host, and what happened since they were last told of.
#[derive(Debug, Default)]
pub struct Ranks {
    kinds: HashMap<OpId, Kind>,
    names: HashMap<OpId, String>,
    ranks: HashMap<u32, Rank>,
    collectives: Pending,
    lines: Lines,
    places: Places,
    stuck: Stuck,
    lost: u64,
    reported_ns: Option<u64>,
}

/// What a call means for a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It waits for others, or for the GPU.
    Collective,
    Wait,
    Launch,
    Other,
}

fn kind_of(op: &OpInfo) -> Kind {
    match (op.layer, op.family) {
        (Layer::Nccl, Family::Collective) => Kind::Collective,
        _ if op.waits_for_gpu => Kind::Wait,
        (_, Family::Launch | Family::Graph) => Kind::Launch,
        _ => Kind::Other,
    }
}

/// What a rank's health was when it was told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Health {
    pub pid: u32,
    pub rank: Option<i32>,
    pub health: f64,
}

/// One push.
#[derive(Debug, Default)]
pub struct Report {
    pub requests: Vec<Request>,
    pub healths: Vec<Health>,
}

impl Ranks {
    pub fn new(ops: &[OpInfo]) -> Ranks {
        Ranks {
            kinds: ops.iter().map(|op| (op.id, kind_of(op))).collect(),
            names: ops.iter().map(|op| (op.id, op.name.clone())).collect(),
            ..Ranks::default()
        }
    }

    /// What came in, and what follows from it.
    pub fn take(&mut self, batch: &Batch, facts: &Facts) {
        for process in &batch.processes {
            if process.end_ns.is_some() {
                self.ranks.remove(&process.pid);
                self.collectives.forget(process.pid);
                self.places.forget(process.pid);
                self.stuck.forget(process.pid);
            } else if let Some(rank) = self.of(process.pid) {
                rank.is_process(process);
            }
        }
        for window in &batch.windows {
            let kind = self.kinds.get(&window.op).copied().unwrap_or(Kind::Other);
            if let Some(rank) = self.of(window.pid) {
                rank.take_window(window, kind);
            }
        }
        for row in &facts.blame {
            let kind = self.kinds.get(&row.op).copied().unwrap_or(Kind::Other);
            if let Some(rank) = self.of(row.pid) {
                rank.take_blame(row, kind);
            }
        }
        for seen in batch.between_calls.iter().filter(|seen| seen.is_between_calls()) {
            if let Some(rank) = self.ranks.get_mut(&seen.pid) {
                rank.see(seen);
            }
        }
        for sent_again in &batch.tcp_events {
            if let Some(rank) = self.ranks.get_mut(&sent_again.pid) {
                rank.sends_again(sent_again);
            }
        }
        for time in &facts.gpu_times {
            if let Some(rank) = self.of(time.pid) {
                rank.take_gpu_time(time);
            }
        }
        for call in &batch.calls {
            if let (Some(gpu), Some(rank)) = (call.device, self.ranks.get_mut(&call.pid)) {
                rank.gpu = Some(gpu.into());
            }
        }
        for sample in &batch.gpu_samples {
            for rank in self.ranks.values_mut().filter(|rank| rank.gpu == Some(sample.gpu)) {
                rank.clock_mhz = sample.sm_clock_mhz.or(rank.clock_mhz);
            }
        }
        for error in &batch.gpu_errors {
            for (pid, rank) in &mut self.ranks {
                let is_its = error.pid.map_or(error.gpu.is_some() && error.gpu == rank.gpu, |of| of == *pid);
                rank.errors += u64::from(is_its);
            }
        }
        self.lost += batch.losses.iter().map(|loss| loss.count).sum::<u64>();
        for collective in &facts.collectives {
            if let Some(rank) = self.of(collective.call.pid) {
                rank.is_in(collective);
            }
            self.collectives.take(collective);
        }
        facts.collective_waits.iter().for_each(|wait| self.collectives.complete(wait));
        self.lines.take(batch);
        self.places.take(batch, &self.lines);
        self.stuck.take(batch, facts);
    }

    fn of(&mut self, pid: u32) -> Option<&mut Rank> {
        if !self.ranks.contains_key(&pid) && self.ranks.len() >= MAX_RANKS {
            return None;
        }
        Some(self.ranks.entry(pid).or_default())
    }

    /// What is told now; the next report begins here.
    pub fn report(&mut self, now_ns: u64, resource: &Resource) -> Report {
        let mut pids: Vec<u32> = self.ranks.keys().copied().collect();
        pids.sort_unstable();
        let lost = std::mem::take(&mut self.lost);
        let wall_ns = now_ns - self.reported_ns.replace(now_ns).unwrap_or(now_ns).min(now_ns);
        let mut report = Report::default();
        let (mut points, mut records) = (Vec::new(), Vec::new());
        for pid in pids {
            let Some(rank) = self.ranks.get_mut(&pid) else { continue };
            let signals = rank.signals(now_ns, wall_ns);
            let who = otlp::Who { pid, rank: rank.number(), nranks: rank.size(), job: rank.job() };
            let collectives = self.collectives.reported(pid, now_ns);
            let silent = rank.silent_since(now_ns);
            let stuck = self.stuck.of(pid, silent, &self.lines, now_ns);
            let places = self.places.reported(pid, rank.caller(), wall_ns);
            if signals.is_empty() && collectives.is_empty() && stuck.is_none() {
                continue;
            }
            if let Some((_, health)) = signals.iter().find(|(signal, _)| signal.name == otlp::HEALTH) {
                report.healths.push(Health { pid, rank: rank.number(), health: *health });
            }
            points.extend(otlp::points(&who, &signals, lost, now_ns));
            if !collectives.is_empty() {
                records.push(otlp::collectives(&who, &collectives, now_ns));
            }
            if !places.is_empty() {
                records.push(otlp::places(&who, &places, now_ns));
            }
            if let Some(stuck) = stuck {
                records.push(otlp::stuck(&who, &stuck, &self.names, now_ns));
            }
        }
        report.requests.extend(otlp::metrics(points, resource));
        report.requests.extend(otlp::logs(&records, resource));
        report
    }
}
