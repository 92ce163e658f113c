//! One rank: a process that drives a GPU, and usually others beside it.

use super::Kind;
use super::open::OpenWaits;
use super::otlp::Signal;
use gpuwhy_cause::{RETRANSMIT_TIMER_NS, lost_to_retransmits};
use gpuwhy_model::{BetweenCalls, BlameRow, CallWindow, Cause, Collective, GpuTime, Process, TcpEvent};
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
    open: OpenWaits,
    /// Segments sent again that no wait was told for: it is added up when it ends, which may be later.
    sent_before: u64,
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
    /// Of that, what was outside collectives and waits for the GPU, by thread.
    lost: HashMap<u32, u64>,
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

    pub(super) fn take_blame(&mut self, row: &BlameRow, kind: Kind) {
        // What the thread computes itself follows from the rest.
        if row.cause == Cause::CpuSelf {
            return;
        }
        let mut ns = row.ns;
        if !matches!(kind, Kind::Collective | Kind::Wait) {
            ns = self.open.unreported(row.tid, row.cause, ns);
            *self.since.lost.entry(row.tid).or_default() += ns;
        }
        *self.since.blame.entry((row.tid, row.cause)).or_default() += ns;
    }

    pub(super) fn see(&mut self, seen: &BetweenCalls) {
        self.open.see(seen);
    }

    pub(super) fn sends_again(&mut self, event: &TcpEvent) {
        self.since.sent_again += 1;
        self.open.sends_again(event.time_ns);
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

    /// Of the time since the last report, `wall_ns` ago. Nothing where nothing is known of it.
    pub(super) fn signals(&mut self, now_ns: u64, wall_ns: u64) -> Vec<(Signal, f64)> {
        if !self.works {
            (self.since, self.errors) = (Since::default(), 0);
            return Vec::new();
        }
        if self.since.windows.is_empty() {
            return self.without_calls(now_ns, wall_ns);
        }
        let since = std::mem::take(&mut self.since);
        let wall_ns = since.windows.len() as u64 * since.window_ns;
        let wall = wall_ns as f64;
        let errors = std::mem::take(&mut self.errors);
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
            let lost_ns = since.lost.get(&tid).copied().unwrap_or(0);
            let unexplained_ns = own_ns.saturating_sub(lost_ns);
            let open = self.open.emit(tid, now_ns, unexplained_ns);
            signals.extend(self.blame(tid, &since, &open, unexplained_ns, wall_ns));
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

    /// No call has returned: what the thread is in may be known yet.
    fn without_calls(&mut self, now_ns: u64, wall_ns: u64) -> Vec<(Signal, f64)> {
        let Some(tid) = self.caller() else {
            self.since = Since::default();
            return Vec::new();
        };
        // This may go on for hours: only what will be told of is kept.
        self.since.busy.clear();
        self.since.blame.retain(|(of, _), _| *of == tid);
        self.since.lost.retain(|of, _| *of == tid);
        let lost_ns = self.since.lost.get(&tid).copied().unwrap_or(0);
        let unexplained_ns = wall_ns.saturating_sub(lost_ns);
        let open = self.open.emit(tid, now_ns, unexplained_ns);
        if open.is_empty() {
            return Vec::new();
        }
        let reported = Since {
            blame: std::mem::take(&mut self.since.blame),
            lost: std::mem::take(&mut self.since.lost),
            sent_again: std::mem::take(&mut self.since.sent_again),
            ..Since::default()
        };
        // What is not known of the rest yet is told later.
        self.blame(tid, &reported, &open, 0, wall_ns)
    }

    /// Shares of the time by cause: what was added up, what it is in now, and the rest, which it computed.
    fn blame(
        &mut self,
        tid: u32,
        since: &Since,
        open: &[(Cause, u64)],
        unexplained_ns: u64,
        wall_ns: u64,
    ) -> Vec<(Signal, f64)> {
        let mut blame: BTreeMap<&'static str, (Cause, u64)> = BTreeMap::new();
        let mut add = |cause: Cause, ns: u64| blame.entry(cause.name()).or_insert((cause, 0)).1 += ns;
        let for_sockets_ns = since.blame.get(&(tid, Cause::NetWait)).copied().unwrap_or(0).min(wall_ns);
        let lost_ns = self.lost_to_network(since.sent_again, for_sockets_ns);
        add(Cause::NetTcp, lost_ns);
        let its = since.blame.iter().filter(|((of, cause), _)| *of == tid && *cause != Cause::GpuWait);
        for (key @ (_, cause), all_ns) in its {
            // As with waits: more than the time there was belongs to the time before.
            let ns = (*all_ns).min(wall_ns);
            if *all_ns > ns {
                *self.since.blame.entry(*key).or_default() += *all_ns - ns;
                *self.since.lost.entry(tid).or_default() += *all_ns - ns;
            }
            add(*cause, if *cause == Cause::NetWait { ns - lost_ns } else { ns });
        }
        open.iter().for_each(|(cause, ns)| add(*cause, *ns));
        let in_wait_ns: u64 = open.iter().map(|(_, ns)| ns).sum();
        add(Cause::CpuSelf, unexplained_ns.saturating_sub(in_wait_ns));
        let reported = blame.into_values().filter(|(_, ns)| *ns > 0);
        reported.map(|(cause, ns)| (Signal::blame(cause), ns as f64 / wall_ns as f64)).collect()
    }

    /// Of the waits for sockets, what the network is to blame for.
    fn lost_to_network(&mut self, sent_again: u64, waited_ns: u64) -> u64 {
        let segments = sent_again + std::mem::take(&mut self.sent_before);
        let lost_ns = lost_to_retransmits(segments, waited_ns);
        self.sent_before = sent_again.min(segments - lost_ns.div_ceil(RETRANSMIT_TIMER_NS));
        lost_ns
    }
}
