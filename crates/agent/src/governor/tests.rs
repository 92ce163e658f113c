//! The governor against simulated threads: what they pay, and what is told of them.

use super::*;
use gpuwhy_model::{Blame, Family, Histogram, Layer, Role, Watched};

const SECOND: u64 = 1_000_000_000;
const WINDOW_NS: u64 = SECOND / 2;
const LAUNCH: OpId = OpId(1);
const SYNC: OpId = OpId(2);
const SHARE: f64 = 0.01;

fn ops() -> Vec<OpInfo> {
    let op = |id, name: &str, family, role| OpInfo {
        id,
        name: name.into(),
        layer: Layer::Cuda,
        family,
        waits_for_gpu: family == Family::Sync,
        role,
    };
    vec![
        op(LAUNCH, "cuLaunchKernel", Family::Launch, Role::Launch),
        op(SYNC, "cuStreamSynchronize", Family::Sync, Role::SyncStream),
    ]
}

/// A thread that launches all the time, and the kernel's part of watching it.
struct Simulation {
    governor: Governor,
    now_ns: u64,
    /// What is attached, counted and charged, as the kernel has it.
    attached: bool,
    slice: SliceSetting,
    debt_ns: f64,
    slice_ns: f64,
    /// Launches a second while nobody watches, and what one costs.
    rate: f64,
    pair_ns: f64,
    sync_share: f64,
    sums: BTreeMap<(u64, u8), (f64, f64)>,
    launches: f64,
    paid: Vec<(u64, f64)>,
    slices: Vec<Slice>,
    counted: Vec<(u64, f64)>,
    changes: Vec<Change>,
}

impl Simulation {
    fn new(rate: f64, share: Option<f64>) -> Self {
        let governor = Governor::new(share, &ops(), SECOND, 7);
        let whole = Span { start_ns: 0, end_ns: u64::MAX };
        let mut simulation = Simulation {
            governor,
            now_ns: SECOND,
            attached: true,
            slice: SliceSetting { number: 0, span: whole, limit_ns: None, gone_ns: 0 },
            debt_ns: 0.0,
            slice_ns: 0.0,
            rate,
            pair_ns: 4_000.0,
            sync_share: 0.0,
            sums: BTreeMap::new(),
            launches: 0.0,
            paid: Vec::new(),
            slices: Vec::new(),
            counted: Vec::new(),
            changes: Vec::new(),
        };
        let actions = simulation.governor.start();
        simulation.act(actions);
        simulation
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Attach(classes) => {
                    self.attached |= classes.contains(&CallClass::Launches);
                    let opened = self.governor.opened(self.now_ns + 2 * MILLISECOND);
                    self.act(opened);
                }
                Action::Set(CallClass::Launches, setting) => {
                    self.slice = setting;
                    self.slice_ns = 0.0;
                }
                Action::Detach(CallClass::Launches) => self.attached = false,
                Action::Report(change) => self.changes.push(change),
                Action::Set(..) | Action::Detach(_) | Action::DetachSoon(_) => {}
            }
        }
    }

    /// What became of launches; events, memsets and lookups follow them.
    fn changes(&self) -> Vec<Change> {
        const FOLLOW: [CallClass; 3] = [CallClass::Events, CallClass::Memsets, CallClass::KernelLookups];
        let follows = |change: &&Change| matches!(change, Change::Sliced(class, _) | Change::Whole(class) if FOLLOW.contains(class));
        self.changes.iter().filter(|change| !follows(change)).cloned().collect()
    }

    /// A millisecond.
    fn pass(&mut self) {
        let step = MILLISECOND as f64;
        let open = self.attached && (self.slice.span.start_ns..self.slice.span.end_ns).contains(&self.now_ns);
        let each_ns = 1e9 / self.rate;
        let cost_ns = if open {
            self.pair_ns
        } else if self.attached {
            self.pair_ns / 2.0
        } else {
            0.0
        };
        let launches = step / (each_ns + cost_ns);
        let paid = launches * cost_ns + step * self.sync_share;
        self.launches += launches;
        self.paid.push((self.now_ns, paid));
        self.debt_ns = (self.debt_ns - step * SHARE * SPENT).max(0.0) + paid;
        let window = self.now_ns / WINDOW_NS * WINDOW_NS;
        if open {
            self.slice_ns += paid;
            let sum = self.sums.entry((window, self.slice.number)).or_default();
            *sum = (sum.0 + launches, sum.1 + launches * cost_ns);
            let owed = if self.slice.span.end_ns == u64::MAX { self.debt_ns } else { self.slice_ns };
            if self.slice.limit_ns.is_some_and(|limit| owed >= limit as f64) {
                let at_ns = self.now_ns + MILLISECOND;
                self.slice.span.end_ns = at_ns;
                let class = Some(CallClass::Launches);
                let debt = Debt { time_ns: at_ns, pid: 7, tid: 8, debt_ns: owed as u64, class };
                self.debt_ns = 0.0;
                let actions = self.governor.take(&[debt], at_ns);
                self.act(actions);
            }
        }
        self.now_ns += MILLISECOND;
        let actions = self.governor.step(self.now_ns);
        self.act(actions);
        if self.now_ns % WINDOW_NS == 100 * MILLISECOND {
            self.drain(self.now_ns - 100 * MILLISECOND);
        }
    }

    fn drain(&mut self, before_ns: u64) {
        let keep = self.sums.split_off(&(before_ns, 0));
        let mut windows: Vec<CallWindow> = std::mem::replace(&mut self.sums, keep)
            .into_iter()
            .map(|((start_ns, slice), (calls, cost))| window(LAUNCH, start_ns, slice, calls, cost))
            .collect();
        if self.sync_share > 0.0 {
            let cost = self.sync_share * WINDOW_NS as f64;
            windows.push(window(SYNC, before_ns - WINDOW_NS, 0, 10.0, cost));
        }
        let slices = self.governor.account(&mut windows, &[]);
        self.slices.extend(slices);
        let launches = windows.iter().filter(|window| window.op == LAUNCH);
        self.counted.extend(launches.map(|window| (window.window_start_ns, window.count as f64)));
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1_000 {
            self.pass();
        }
    }

    fn finish(&mut self) {
        self.governor.finish(self.now_ns);
        self.drain(u64::MAX);
    }

    fn paid_pct(&self, from_s: u64, to_s: u64) -> f64 {
        let within = (1 + from_s) * SECOND..(1 + to_s) * SECOND;
        let paid: f64 = self.paid.iter().filter(|(time, _)| within.contains(time)).map(|(_, ns)| ns).sum();
        100.0 * paid / (within.end - within.start) as f64
    }
}

fn window(op: OpId, window_start_ns: u64, slice: u8, calls: f64, cost: f64) -> CallWindow {
    CallWindow {
        window_start_ns,
        window_ns: WINDOW_NS,
        pid: 7,
        tid: 8,
        op,
        direction: None,
        count: calls.round() as u64,
        errors: 0,
        kept: 0,
        bytes: 0,
        sum_ns: 0,
        min_ns: 0,
        max_ns: 0,
        blame: Blame::default(),
        hist: Histogram::default(),
        cost_ns: cost as u64,
        beside_ns: 0,
        slice,
    }
}

#[test]
fn a_trap_is_never_billed_below_what_was_measured() {
    let trap = TrapCost { flavour: Flavour::Session, ns: 3_000.0 };
    let budget = budget_of(SHARE, Flavour::Session, Some(trap));
    assert!(budget.pair_ns >= 3_000, "{budget:?}");
    assert!(budget.entry_ns < budget.pair_ns);
    let multi = budget_of(SHARE, Flavour::Multi, None);
    assert_eq!(multi.entry_ns, multi.pair_ns, "a return that is not wanted traps all the same");
}

/// Loops that launch as fast as they can, and ordinary training.
#[test]
fn cost_stays_within_the_budget_from_the_first_second_on() {
    for rate in [600_000.0, 100_000.0, 30_000.0, 12_000.0] {
        let mut thread = Simulation::new(rate, Some(SHARE));
        thread.run(60);
        for to_s in [1, 2, 5, 10, 60] {
            let paid = thread.paid_pct(0, to_s);
            assert!(paid <= 1.0, "{rate} launches a second pay {paid:.2}% in {to_s} s");
        }
        let paid = thread.paid_pct(0, 60);
        assert!(paid >= 0.4, "the budget is made use of: {rate} launches a second pay {paid:.2}%");
    }
}

#[test]
fn what_slices_tell_is_what_was_done() {
    let estimate = |rate: f64| {
        let mut thread = Simulation::new(rate, Some(SHARE));
        thread.run(30);
        thread.finish();
        let watched = Watched::new(&thread.slices, CallClass::Launches, 7).unwrap();
        let within = Span { start_ns: SECOND, end_ns: thread.now_ns };
        (thread.launches, watched.estimate(within, &thread.counted))
    };
    for rate in [100_000.0, 40_000.0, 12_000.0] {
        let (launches, estimate) = estimate(rate);
        let estimate = estimate.unwrap();
        let off = estimate.value / launches - 1.0;
        assert!(off.abs() < 0.05, "{rate}: {launches:.0} launches, {estimate:?}");
        assert!(estimate.low <= launches && launches <= estimate.high, "{launches}: {estimate:?}");
    }
    assert_eq!(estimate(600_000.0).1, None, "a thread that does little else in a slice than being watched");
}

/// A short trace of ordinary training has slices, too: what the calls before the first one cost is known.
#[test]
fn the_first_slices_come_soon() {
    for rate in [18_000.0, 12_000.0] {
        let mut thread = Simulation::new(rate, Some(SHARE));
        thread.run(4);
        thread.finish();
        let starts: Vec<u64> = thread
            .slices
            .iter()
            .filter(|slice| slice.pid.is_none() && slice.class == CallClass::Launches)
            .map(|slice| (slice.span.start_ns - SECOND) / MILLISECOND)
            .collect();
        assert!(
            starts.iter().filter(|start| **start > 0 && **start < 2_500).count() >= 2,
            "{rate}: slices after {starts:?} ms"
        );
    }
}

#[test]
fn what_fits_the_budget_is_watched_all_the_time() {
    let mut thread = Simulation::new(1_500.0, Some(SHARE));
    thread.run(20);
    thread.finish();
    assert_eq!((thread.slices.len(), thread.changes.len()), (0, 0));
    let counted: f64 = thread.counted.iter().map(|(_, calls)| calls).sum();
    // Each window is rounded.
    assert!((counted - thread.launches).abs() <= 0.5 * 41.0, "{counted} of {}", thread.launches);
}

#[test]
fn without_a_budget_nothing_is_sliced() {
    let mut thread = Simulation::new(600_000.0, None);
    thread.run(5);
    thread.finish();
    assert_eq!((thread.slices.len(), thread.changes.len(), thread.governor.next_ns()), (0, 0, None));
}

#[test]
fn a_thread_that_calms_down_is_watched_all_the_time_again() {
    let mut thread = Simulation::new(100_000.0, Some(SHARE));
    thread.run(10);
    assert_eq!(thread.changes(), [Change::Sliced(CallClass::Launches, Some(7))]);
    thread.rate = 300.0;
    thread.run(30);
    assert_eq!(thread.changes().last(), Some(&Change::Whole(CallClass::Launches)));
    thread.finish();
    let last = thread.slices.iter().filter(|slice| slice.pid.is_none()).max_by_key(|slice| slice.span.end_ns);
    let last = last.unwrap().span;
    assert!(last.end_ns == thread.now_ns && last.ns() > 5 * SECOND, "told to the end of the trace: {last:?}");
}

#[test]
fn after_the_last_call_nothing_is_sliced_any_more() {
    let mut thread = Simulation::new(100_000.0, Some(SHARE));
    thread.run(10);
    thread.rate = 1e-6;
    thread.run(20);
    assert_eq!(thread.changes().last(), Some(&Change::Whole(CallClass::Launches)));
}

/// What tells most is watched in slices only where it costs too much by itself.
#[test]
fn synchronisations_are_given_up_last() {
    let mut thread = Simulation::new(100_000.0, Some(SHARE));
    thread.sync_share = 0.004;
    thread.run(20);
    assert_eq!(thread.changes(), [Change::Sliced(CallClass::Launches, Some(7))]);
    thread.sync_share = 0.02;
    thread.run(5);
    assert!(
        thread.changes.contains(&Change::Sliced(CallClass::Synchronisations, None)),
        "{:?}",
        thread.changes
    );
}

#[test]
fn slices_begin_at_random_and_the_seed_decides() {
    let gaps = |seed: u64| {
        let mut thread = Simulation::new(100_000.0, Some(SHARE));
        thread.governor.random = seed;
        thread.run(40);
        let slices =
            thread.slices.iter().filter(|slice| slice.pid.is_none()).map(|slice| slice.span.start_ns);
        slices.collect::<Vec<u64>>()
    };
    assert_eq!(gaps(1), gaps(1));
    assert_ne!(gaps(1), gaps(2));
    let starts = gaps(1);
    let gaps: Vec<u64> = starts.windows(2).skip(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
    assert!(gaps.len() >= 5 && *most > least + least / 5, "{gaps:?}");
}

#[test]
fn a_window_is_told_of_the_time_that_was_watched() {
    let mut periods = Periods::new(SECOND);
    periods.end(CallClass::Launches, 3 * SECOND + SECOND / 4);
    let number = periods.next_number();
    let span = Span { start_ns: 4 * SECOND + 400 * MILLISECOND, end_ns: 4 * SECOND + 600 * MILLISECOND };
    periods.begin(CallClass::Launches, number, span);
    let class_of = |op| (op == LAUNCH).then_some(CallClass::Launches);
    let mut windows = vec![
        window(LAUNCH, 3 * SECOND, 0, 1.0, 0.0),
        window(LAUNCH, 4 * SECOND, number, 1.0, 0.0),
        window(LAUNCH, 4 * SECOND + WINDOW_NS, number, 1.0, 0.0),
        window(SYNC, 4 * SECOND, 0, 1.0, 0.0),
    ];
    periods.clip(&mut windows, class_of);
    let reported: Vec<(u64, u64)> =
        windows.iter().map(|w| (w.window_start_ns / MILLISECOND, w.window_ns / MILLISECOND)).collect();
    assert_eq!(reported, [(3_000, 250), (4_400, 100), (4_500, 100), (4_000, 500)]);
}

#[test]
fn who_waits_anyway_is_not_slowed_down() {
    let mut periods = Periods::new(0);
    periods.end(CallClass::Launches, SECOND);
    let number = periods.next_number();
    let span = Span { start_ns: 2 * SECOND, end_ns: 2 * SECOND + 100 * MILLISECOND };
    periods.begin(CallClass::Launches, number, span);
    let launches = window(LAUNCH, 2 * SECOND, number, 1_000.0, 10e6);
    let mut sync = window(SYNC, 2 * SECOND, 0, 10.0, 0.0);
    let slowed = |windows: &[CallWindow]| {
        let class_of = |op| (op == LAUNCH).then_some(CallClass::Launches);
        let slices = periods.slowed(windows, &[], class_of, |op| op == SYNC);
        slices.iter().map(|slice| slice.slowed_ns / MILLISECOND).sum::<u64>()
    };
    assert_eq!(slowed(&[launches.clone(), sync.clone()]), 10);
    sync.blame.oncpu_ns = WINDOW_NS / 20;
    assert_eq!(slowed(&[launches.clone(), sync.clone()]), 5, "a twentieth of the time is no loss");
    sync.blame.oncpu_ns = WINDOW_NS / 2;
    assert_eq!(slowed(&[launches, sync]), 0);
}
