//! One rank: a process that drives a GPU, and usually others beside it.

use super::Kind;
use super::otlp::Signal;
use gpuwhy_cause::lost_to_retransmits;
use gpuwhy_model::{BlameRow, CallWindow, Cause, Collective, GpuTime, Process};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Default)]
pub(super) struct Rank {
    pub(super) gpu: Option<u32>,
    pub(super) clock_mhz: Option<u32>,
    pub(super) errors: u64,
    /// It has launched, copied or waited: many processes only load a library of the driver.
    works: bool,
    rank: Option<i32>,
    nranks: Option<i32>,
    job: Option<String>,
    /// The communicator with most ranks it is in: its hash, its size and this one's number in it.
    world: Option<(u64, i32, Option<i32>)>,
    /// When its last collective began.
    last_ns: Option<u64>,
    /// Collectives by thread since the beginning: the thread with most is the one that is told of.
    callers: HashMap<u32, u64>,
    since: Since,
    /// A long wait is counted in the window in which it ends: what is more than that window's time belongs to those before.
    owed_ns: u64,
}

/// Sums since the last report.
#[derive(Debug, Default)]
struct Since {
    windows: BTreeSet<u64>,
    window_ns: u64,
    /// Time in collectives and waits for the GPU, and the number of collectives, by thread.
    waited: HashMap<u32, (u64, u64)>,
    launches: u64,
    blame: HashMap<(u32, Cause), u64>,
    /// Segments its connections had to send again.
    sent_again: u64,
    /// By window: at most so much of it some stream had work.
    busy: BTreeMap<u64, (u64, u64)>,
}

impl Rank {
    pub(super) fn is_process(&mut self, process: &Process) {
        self.rank = process.rank.or(self.rank);
        self.nranks = process.world_size.or(self.nranks);
        self.job = process.job_id.clone().or(self.job.take());
    }

    pub(super) fn is_in(&mut self, collective: &Collective) {
        self.last_ns = self.last_ns.max(Some(collective.call.start_ns));
        if let (Some(hash), Some(nranks)) = (collective.comm_id_hash, collective.nranks)
            && self.world.is_none_or(|(_, most, _)| nranks > most)
        {
            self.world = Some((hash, nranks, collective.rank));
        }
    }

    pub(super) fn take_window(&mut self, window: &CallWindow, kind: Kind) {
        self.since.windows.insert(window.window_start_ns);
        self.since.window_ns = self.since.window_ns.max(window.window_ns);
        self.works |= kind != Kind::Other;
        let waited = self.since.waited.entry(window.tid).or_default();
        match kind {
            Kind::Collective => {
                waited.0 += window.sum_ns;
                waited.1 += window.count;
                *self.callers.entry(window.tid).or_default() += window.count;
            }
            Kind::Wait => waited.0 += window.sum_ns,
            Kind::Launch => self.since.launches += window.count,
            Kind::Other => {}
        }
    }

    pub(super) fn take_blame(&mut self, row: &BlameRow) {
        *self.since.blame.entry((row.tid, row.cause)).or_default() += row.ns;
    }

    pub(super) fn sends_again(&mut self) {
        self.since.sent_again += 1;
    }

    pub(super) fn take_gpu_time(&mut self, time: &GpuTime) {
        let busy = self.since.busy.entry(time.window_start_ns).or_default();
        *busy = (time.window_ns, busy.1 + time.busy_upper_ns);
    }

    /// In the job.
    pub(super) fn number(&self) -> Option<i32> {
        self.rank.or_else(|| self.world.and_then(|(_, _, rank)| rank))
    }

    pub(super) fn size(&self) -> Option<i32> {
        self.nranks.or_else(|| self.world.map(|(_, nranks, _)| nranks))
    }

    /// What its peers have in common.
    pub(super) fn job(&self) -> Option<String> {
        self.job.clone().or_else(|| self.world.map(|(hash, ..)| format!("{hash:#x}")))
    }

    /// The thread that has called most collectives.
    pub(super) fn caller(&self) -> Option<u32> {
        self.callers.iter().max_by_key(|(tid, count)| (**count, **tid)).map(|(tid, _)| *tid)
    }

    /// Since when a rank that has peers has come to no collective.
    pub(super) fn silent_since(&self, now_ns: u64) -> Option<u64> {
        let shared = self.size().is_some_and(|nranks| nranks > 1);
        self.last_ns.filter(|last| shared && *last < now_ns)
    }

    /// Of the time since the last ones. Nothing where no window is over.
    pub(super) fn signals(&mut self) -> Vec<(Signal, f64)> {
        let since = std::mem::take(&mut self.since);
        let wall_ns = since.windows.len() as u64 * since.window_ns;
        let errors = std::mem::take(&mut self.errors);
        if wall_ns == 0 || !self.works {
            return Vec::new();
        }
        let wall = wall_ns as f64;
        let mut signals =
            vec![(Signal::LAUNCH_RATE, since.launches as f64 * 1e9 / wall), (Signal::ERRORS, errors as f64)];
        if let Some(tid) = self.caller() {
            let (waited, collectives) = since.waited.get(&tid).copied().unwrap_or_default();
            let waited = waited + std::mem::take(&mut self.owed_ns);
            self.owed_ns = waited.saturating_sub(wall_ns);
            let own_ns = wall_ns - waited.min(wall_ns);
            if collectives > 0 {
                let step = wall / 1e9 / collectives as f64;
                let own = own_ns as f64 / 1e9 / collectives as f64;
                signals.push((Signal::STEP, step));
                signals.push((Signal::OWN, own));
                signals.push((Signal::HEALTH, 1.0 - own / step));
            }
            let mut blame: Vec<(Cause, u64)> = since
                .blame
                .iter()
                .filter(|((of, cause), _)| *of == tid && *cause != Cause::GpuWait)
                .map(|((_, cause), ns)| (*cause, *ns))
                .collect();
            tell_retransmits(&mut blame, since.sent_again);
            blame.sort_by_key(|(cause, _)| cause.name());
            signals.extend(blame.into_iter().map(|(cause, ns)| (Signal::blame(cause), ns as f64 / wall)));
        }
        let (windows, busy) =
            since.busy.values().fold((0, 0), |(all, sum), (ns, busy)| (all + ns, sum + busy.min(ns)));
        if windows > 0 {
            signals.push((Signal::IDLE, 1.0 - busy as f64 / windows as f64));
        }
        if let Some(mhz) = self.clock_mhz {
            signals.push((Signal::CLOCK, f64::from(mhz) * 1e6));
        }
        signals
    }
}

/// Of the waits for sockets, what the network is to blame for.
fn tell_retransmits(blame: &mut Vec<(Cause, u64)>, sent_again: u64) {
    let Some(waited) = blame.iter_mut().find(|(cause, _)| *cause == Cause::NetWait) else { return };
    let lost_ns = lost_to_retransmits(sent_again, waited.1);
    waited.1 -= lost_ns;
    if lost_ns > 0 {
        blame.push((Cause::NetTcp, lost_ns));
    }
}
