//! Keeps what being watched costs a thread within its budget. Frequent calls are watched in slices of time, spread at
//! random, as many as the budget pays for; between them nothing is attached. The kernel ends a slice at once where a
//! thread would pay too much. Pure: time comes in with what happened, and what is to be done goes out.

mod periods;

use gpuwhy_model::{CallClass, CallWindow, Debt, Level, OpId, OpInfo, Part, Slice, Span, TracingCost, Wait};
use gpuwhy_probes::{Budget, Flavour, SliceSetting, TrapCost};
use periods::Periods;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// A probed call in empty pairs, with the work of our programs; see `bench/`. Never less than was measured.
const PAIR_OVER_EMPTY: f64 = 1.75;
/// An entry alone, in empty pairs: session probes spare the return.
const ENTRY_OVER_EMPTY: f64 = 0.8;
const KEPT_NS: u64 = 1_000;
const STACK_NS: u64 = 12_000;
/// Where the trap's cost could not be measured.
const ASSUMED_PAIR_NS: f64 = 2_500.0;

/// What of the budget is given out: attaching, detaching and cold caches cost a program something, too.
const SPENT: f64 = 0.8;
/// A thread that costs so many seconds' worth at once is over its budget: what it calls is watched in slices from then on.
const LOOK_S: f64 = 0.3;
/// Debt beyond which no stacks are taken, in seconds' worth.
const STACKS_S: f64 = 3.0;
/// What a slice is to cost, in seconds' worth: many short ones tell more than a few long ones.
const SLICE_S: f64 = 0.35;
/// The same of one whose cost nobody knows, with what comes before and after it; and in it alone.
const FIRST_SLICE_S: f64 = 0.8;
const FIRST_LIMIT_S: f64 = 0.3;
/// By so much more than the calls before it a first slice may cost: its process may have begun in the middle of them.
const FIRST_MARGIN: f64 = 1.5;
/// A slice that costs so many times as much as expected ends at once.
const SURPRISE: f64 = 3.0;
const MILLISECOND: u64 = 1_000_000;
/// Attaching and detaching take tens of milliseconds, in which there are traps that tell nothing.
const MIN_SLICE_NS: u64 = 40 * MILLISECOND;
const MAX_SLICE_NS: u64 = 100 * MILLISECOND;
const MIN_GAP_NS: u64 = 300 * MILLISECOND;
/// Traps of a slice before and after it.
const EDGES_NS: u64 = 10 * MILLISECOND;
/// Setting it takes a moment.
const AHEAD_NS: u64 = MILLISECOND / 2;
/// Calls in flight at a slice's end may return before their probe is detached.
const GRACE_NS: u64 = 4 * MILLISECOND;
/// The sums of a slice are there so long after its end.
const SUMS_NS: u64 = 800 * MILLISECOND;
/// So many slices tell what calls cost.
const REMEMBERED: usize = 4;
/// All calls are watched all the time again where that would cost so much of the budget; a part of them where it would leave
/// the rest its slices.
const ALL_AGAIN: f64 = 0.5;
const SOME_AGAIN: f64 = 0.15;
/// What is always watched is told from so many windows.
const ALWAYS_WINDOWS: usize = 4;
/// It is told so often at most that a process has no stacks.
const REPORT_EVERY_NS: u64 = 10_000_000_000;

/// What the budget means in nanoseconds on this machine.
pub(crate) fn budget_of(share: f64, flavour: Flavour, trap: Option<TrapCost>) -> Budget {
    let empty = trap.map_or(ASSUMED_PAIR_NS, |trap| trap.ns);
    let pair_ns = (empty * PAIR_OVER_EMPTY) as u64;
    Budget {
        stacks_ns: (share * STACKS_S * 1e9) as u64,
        drain: share * SPENT,
        // Only session probes spare the return.
        entry_ns: if flavour == Flavour::Session { (empty * ENTRY_OVER_EMPTY) as u64 } else { pair_ns },
        pair_ns,
        kept_ns: KEPT_NS,
        stack_ns: STACK_NS,
    }
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// To be followed by [`Governor::opened`].
    Attach(Vec<CallClass>),
    /// Something is to be detached at this time.
    DetachSoon(u64),
    Set(CallClass, SliceSetting),
    Detach(CallClass),
    /// Worth a line in the trace.
    Report(Change),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// From now on watched in slices, because of a process, where it is known.
    Sliced(CallClass, Option<u32>),
    Whole(CallClass),
    NoStacks(u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// For the balance to suffice.
    Waiting {
        not_before_ns: u64,
    },
    Attaching {
        expected_ns: f64,
    },
    Open {
        to_ns: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Governor {
    /// 0 where there is no budget.
    share: f64,
    ops: HashMap<OpId, OpOf>,
    periods: Periods,
    sliced: BTreeSet<CallClass>,
    /// Classes whose functions are attached for a slice.
    attached: BTreeSet<CallClass>,
    state: State,
    /// What may be spent, in nanoseconds of a thread: it grows with time, and slices and calls that are always watched
    /// are paid from it, of the process that pays most. Its threads are taken together: PyTorch launches forward in one and
    /// backward in another, which take turns, and a step pays for both.
    balance_ns: f64,
    balanced_at_ns: u64,
    /// The thread that paid most lately, of the process that did.
    payer: Option<u32>,
    /// Since when it is kept.
    since_ns: u64,
    expected: VecDeque<Expected>,
    /// What slices cost by class, as a share of their length, of the process that paid most; the latest last.
    costs: VecDeque<SliceCost>,
    /// The same of the time before the first slice, in which all was watched.
    whole_share: Option<f64>,
    /// The same of what is always watched, by window.
    always: VecDeque<BTreeMap<Option<CallClass>, f64>>,
    random: u64,
    drawn: f64,
    reported: HashMap<u32, u64>,
}

/// Of a slice whose sums are not there yet.
#[derive(Debug, Clone, Copy)]
struct Expected {
    number: u8,
    span: Span,
    cost_ns: f64,
}

#[derive(Debug, Clone, Copy)]
struct OpOf {
    class: Option<CallClass>,
    waits_for_gpu: bool,
}

/// By a process in a window, by thread.
#[derive(Debug, Default)]
struct Paid(HashMap<u32, f64>);

impl Paid {
    fn add(&mut self, tid: u32, ns: f64) {
        *self.0.entry(tid).or_default() += ns;
    }

    fn ns(&self) -> f64 {
        self.0.values().sum()
    }

    /// The thread that paid most.
    fn payer(&self) -> Option<u32> {
        self.0.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(tid, _)| *tid)
    }
}

#[derive(Debug, Clone, Default)]
struct SliceCost {
    number: u8,
    length_ns: u64,
    by_class: BTreeMap<CallClass, HashMap<u32, f64>>,
}

impl SliceCost {
    /// Of the process that paid most for these classes.
    fn share(&self, classes: impl Fn(CallClass) -> bool) -> f64 {
        let mut processes: HashMap<u32, f64> = HashMap::new();
        for (_, costs) in self.by_class.iter().filter(|(class, _)| classes(**class)) {
            for (pid, ns) in costs {
                *processes.entry(*pid).or_default() += ns;
            }
        }
        processes.into_values().fold(0.0, f64::max) / self.length_ns.max(1) as f64
    }
}

impl Governor {
    /// Without a budget everything is watched all the time. The seed decides when slices begin.
    pub(crate) fn new(share: Option<f64>, ops: &[OpInfo], now_ns: u64, seed: u64) -> Self {
        let of = |op: &OpInfo| (op.id, OpOf { class: CallClass::of_op(op), waits_for_gpu: op.waits_for_gpu });
        let mut governor = Governor {
            share: share.unwrap_or(0.0),
            ops: ops.iter().map(of).collect(),
            periods: Periods::new(now_ns),
            sliced: BTreeSet::new(),
            attached: BTreeSet::new(),
            state: State::Waiting { not_before_ns: now_ns },
            balance_ns: 0.0,
            balanced_at_ns: now_ns,
            payer: None,
            since_ns: now_ns,
            expected: VecDeque::new(),
            costs: VecDeque::new(),
            whole_share: None,
            always: VecDeque::new(),
            random: seed,
            drawn: 0.0,
            reported: HashMap::new(),
        };
        governor.draw();
        governor
    }

    /// What to set before anything is attached.
    pub(crate) fn start(&self) -> Vec<Action> {
        if self.share == 0.0 {
            return Vec::new();
        }
        CallClass::ALL
            .into_iter()
            .map(|class| Action::Set(class, self.whole(class, 0, self.since_ns)))
            .collect()
    }

    /// Watched all the time, until a thread costs too much.
    fn whole(&self, class: CallClass, number: u8, from_ns: u64) -> SliceSetting {
        SliceSetting {
            number,
            span: Span { start_ns: from_ns, end_ns: u64::MAX },
            limit_ns: (!class.is_last_resort()).then(|| self.worth_ns(LOOK_S) as u64),
            gone_ns: self.periods.gone_ns(class),
        }
    }

    /// What the budget gives in so many seconds.
    fn worth_ns(&self, seconds: f64) -> f64 {
        self.share * seconds * 1e9
    }

    /// When to look again at the latest.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        if self.sliced.is_empty() {
            return None;
        }
        Some(match self.state {
            State::Open { to_ns } => to_ns + GRACE_NS,
            State::Attaching { .. } => self.balanced_at_ns,
            State::Waiting { not_before_ns } => {
                let missing_ns = self.needed_ns() - self.balance_ns + self.ahead_ns();
                let wait_ns = (missing_ns.max(0.0) / (self.share * SPENT)) as u64;
                not_before_ns.max(self.balanced_at_ns.saturating_add(wait_ns))
            }
        })
    }

    /// The kernel has ended a slice, because of a thread of this process where it is known.
    pub(crate) fn closed(&mut self, class: CallClass, at_ns: u64, debt: Option<&Debt>) -> Vec<Action> {
        if !self.periods.is_open(class) {
            return Vec::new();
        }
        if !self.sliced.contains(&class) {
            return self.slice(class, at_ns, debt);
        }
        self.periods.end(class, at_ns);
        let gone = self.gone(class, at_ns);
        self.attached.remove(&class);
        if self.attached.is_empty() {
            self.wait(at_ns);
        }
        gone
    }

    /// Watched in slices from now on. What is frequent is frequent together: with launches come the memsets and lookups of
    /// the same loop, and what they cost would leave launches no slice.
    fn slice(&mut self, class: CallClass, at_ns: u64, debt: Option<&Debt>) -> Vec<Action> {
        if self.sliced.is_empty() {
            self.since_ns = at_ns;
            self.balanced_at_ns = at_ns;
            self.balance_ns = -debt.map_or(self.worth_ns(LOOK_S), |debt| debt.debt_ns as f64);
            self.wait(at_ns);
        }
        // What a slice costs has to be found out anew.
        self.costs.clear();
        self.always.clear();
        self.whole_share = None;
        let with_it =
            |other: &CallClass| *other == class || !class.is_last_resort() && !other.is_last_resort();
        let is_new = |other: &CallClass| with_it(other) && !self.sliced.contains(other);
        let classes: Vec<CallClass> = CallClass::ALL.into_iter().filter(is_new).collect();
        let mut actions = Vec::new();
        for class in classes {
            self.periods.end(class, at_ns);
            self.sliced.insert(class);
            actions.push(Action::Report(Change::Sliced(class, debt.map(|debt| debt.pid))));
            actions.extend(self.gone(class, at_ns));
        }
        actions
    }

    fn wait(&mut self, from_ns: u64) {
        self.state = State::Waiting { not_before_ns: from_ns + MIN_GAP_NS };
        self.draw();
    }

    fn gone(&self, class: CallClass, at_ns: u64) -> Vec<Action> {
        let span = Span { start_ns: at_ns, end_ns: at_ns };
        let ended = SliceSetting { number: self.periods.number(), span, limit_ns: None, gone_ns: at_ns };
        vec![Action::Set(class, ended), Action::Detach(class)]
    }

    /// Debts of threads, as the kernel tells them.
    pub(crate) fn take(&mut self, debts: &[Debt], now_ns: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        for debt in debts {
            match debt.class {
                Some(class) => actions.extend(self.closed(class, debt.time_ns, Some(debt))),
                None if self
                    .reported
                    .get(&debt.pid)
                    .is_none_or(|reported| now_ns >= reported + REPORT_EVERY_NS) =>
                {
                    self.reported.insert(debt.pid, now_ns);
                    actions.push(Action::Report(Change::NoStacks(debt.pid)));
                }
                None => {}
            }
        }
        actions
    }

    /// Opens and ends slices whose time has come.
    pub(crate) fn step(&mut self, now_ns: u64) -> Vec<Action> {
        self.accrue(now_ns);
        if self.sliced.is_empty() {
            return self.last_resort(now_ns);
        }
        match self.state {
            State::Open { to_ns } if now_ns >= to_ns + GRACE_NS => {
                let mut actions = Vec::new();
                for class in std::mem::take(&mut self.attached) {
                    self.periods.end(class, to_ns);
                    actions.extend(self.gone(class, to_ns));
                }
                self.wait(now_ns);
                actions
            }
            State::Waiting { not_before_ns } if now_ns >= not_before_ns => {
                let mut actions = self.whole_again(now_ns);
                actions.extend(self.last_resort(now_ns));
                let is_known =
                    !self.costs.is_empty() || self.whole_share.is_some() || self.expected.is_empty();
                let can_pay = is_known && self.balance_ns - self.ahead_ns() >= self.needed_ns();
                if can_pay && !self.sliced.is_empty() && actions.is_empty() {
                    self.state = State::Attaching { expected_ns: self.expected_ns() };
                    actions.push(Action::Attach(self.sliced.iter().copied().collect()));
                }
                actions
            }
            _ => Vec::new(),
        }
    }

    /// All is attached: the slice begins.
    pub(crate) fn opened(&mut self, now_ns: u64) -> Vec<Action> {
        let State::Attaching { expected_ns } = self.state else { return Vec::new() };
        let start_ns = now_ns + AHEAD_NS;
        let span = Span { start_ns, end_ns: start_ns + self.length_ns() };
        let number = self.periods.next_number();
        let is_first = self.costs.is_empty();
        let limit_ns = if is_first { self.worth_ns(FIRST_LIMIT_S) } else { expected_ns * SURPRISE };
        self.state = State::Open { to_ns: span.end_ns };
        self.expected.push_back(Expected { number, span, cost_ns: expected_ns });
        self.attached = self.sliced.clone();
        let mut actions = Vec::new();
        for class in self.sliced.clone() {
            self.periods.begin(class, number, span);
            let gone_ns = self.periods.gone_ns(class);
            let limit_ns = Some(limit_ns as u64);
            actions.push(Action::Set(class, SliceSetting { number, span, limit_ns, gone_ns }));
        }
        actions.push(Action::DetachSoon(span.end_ns + GRACE_NS));
        actions
    }

    fn accrue(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.balanced_at_ns) as f64;
        let most_ns = self.worth_ns(SLICE_S).max(2.0 * self.expected_ns());
        self.balance_ns = (self.balance_ns + passed_ns * self.share * SPENT).min(most_ns);
        self.balanced_at_ns = self.balanced_at_ns.max(now_ns);
        while let Some(slice) =
            self.expected.front().copied().filter(|slice| now_ns >= slice.span.end_ns + SUMS_NS)
        {
            self.expected.pop_front();
            // One without calls cost nothing, which says something, too.
            self.cost_of(slice.number, slice.span.ns());
        }
        self.costs.drain(..self.costs.len().saturating_sub(REMEMBERED));
    }

    /// Spent, and not in the balance yet.
    fn ahead_ns(&self) -> f64 {
        self.expected.iter().map(|slice| slice.cost_ns).sum()
    }

    /// What a slice costs, as a share of its length: the dearest of the latest.
    fn cost_share(&self) -> f64 {
        self.costs.iter().map(|cost| cost.share(|class| self.sliced.contains(&class))).fold(0.0, f64::max)
    }

    fn length_ns(&self) -> u64 {
        if self.costs.is_empty() {
            return MIN_SLICE_NS;
        }
        let ns = self.worth_ns(SLICE_S) / self.cost_share().max(1e-9);
        (ns as u64).clamp(MIN_SLICE_NS, MAX_SLICE_NS)
    }

    fn expected_ns(&self) -> f64 {
        let whole_ns = (self.length_ns() + EDGES_NS) as f64;
        match self.whole_share {
            _ if !self.costs.is_empty() => self.cost_share() * whole_ns,
            Some(share) => (share * FIRST_MARGIN * whole_ns).min(self.worth_ns(FIRST_SLICE_S)),
            None => self.worth_ns(FIRST_SLICE_S),
        }
    }

    /// The balance at which the next slice begins: chance decides when that is.
    fn needed_ns(&self) -> f64 {
        self.expected_ns() * (1.0 + self.drawn / 2.0)
    }

    fn draw(&mut self) {
        // Splitmix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.drawn = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    }

    /// Classes that slices show to be rare enough: what tells most first.
    fn whole_again(&mut self, now_ns: u64) -> Vec<Action> {
        let always = self.always_share(|_| true);
        if self.costs.len() < REMEMBERED {
            return Vec::new();
        }
        let mut actions = Vec::new();
        let share_of = |classes: &BTreeSet<CallClass>| {
            let of = |cost: &SliceCost| cost.share(|class| classes.contains(&class));
            always + self.costs.iter().map(of).fold(0.0, f64::max)
        };
        let mut whole = self.sliced.clone();
        if share_of(&whole) > ALL_AGAIN * self.share {
            whole.clear();
            for class in self.sliced.iter().rev() {
                whole.insert(*class);
                let limit = if class.is_last_resort() { ALL_AGAIN } else { SOME_AGAIN };
                if share_of(&whole) > limit * self.share {
                    whole.remove(class);
                }
            }
        }
        for class in whole {
            self.sliced.remove(&class);
            let number = self.periods.next_number();
            // Attached, and counted once that is done for certain.
            let from_ns = now_ns + 100 * MILLISECOND;
            self.periods.begin(class, number, Span { start_ns: from_ns, end_ns: u64::MAX });
            actions.push(Action::Attach(vec![class]));
            actions.push(Action::Set(class, self.whole(class, number, from_ns)));
            actions.push(Action::Report(Change::Whole(class)));
            self.always.clear();
        }
        actions
    }

    /// Where what is always watched costs too much, so is what tells most watched in slices.
    fn last_resort(&mut self, now_ns: u64) -> Vec<Action> {
        if self.share == 0.0
            || self.always.len() < ALWAYS_WINDOWS
            || self.always_share(|_| true) <= self.share
        {
            return Vec::new();
        }
        let open = |class: &CallClass| class.is_last_resort() && !self.sliced.contains(class);
        let dearest = CallClass::ALL.into_iter().filter(open).max_by(|a, b| {
            let of = |class: CallClass| self.always_share(|other| other == Some(class));
            of(*a).total_cmp(&of(*b))
        });
        dearest.map_or_else(Vec::new, |class| self.slice(class, now_ns, None))
    }

    /// Of what is always watched, on average over the latest windows.
    fn always_share(&self, wanted: impl Fn(Option<CallClass>) -> bool) -> f64 {
        let of = |window: &BTreeMap<Option<CallClass>, f64>| -> f64 {
            window.iter().filter(|(class, _)| wanted(**class)).map(|(_, share)| share).sum()
        };
        self.always.iter().map(of).sum::<f64>() / self.always.len().max(1) as f64
    }

    /// Sums have come: what was spent becomes known, and each is told of the time that was watched.
    pub(crate) fn account(&mut self, windows: &mut [CallWindow], waits: &[Wait]) -> Vec<Slice> {
        if self.share == 0.0 {
            return Vec::new();
        }
        self.spend(windows, waits);
        let slowed = self.periods.slowed(windows, waits, |op| self.class_of(op), |op| self.waits(op));
        self.periods.clip(windows, |op| self.class_of(op));
        let mut slices = self.periods.take_ended();
        slices.extend(slowed);
        slices
    }

    fn class_of(&self, op: OpId) -> Option<CallClass> {
        self.ops.get(&op).and_then(|op| op.class)
    }

    fn waits(&self, op: OpId) -> bool {
        self.ops.get(&op).is_some_and(|op| op.waits_for_gpu)
    }

    fn spend(&mut self, windows: &[CallWindow], waits: &[Wait]) {
        // The budget is a share of the time a thread has: while others have the CPU it earns nothing.
        if !self.sliced.is_empty() {
            let of_payer = |wait: &&Wait| wait.part == Part::Runnable && Some(wait.tid) == self.payer;
            let kept_off_ns: u64 = waits.iter().filter(of_payer).map(|wait| wait.ns).sum();
            self.balance_ns -= kept_off_ns as f64 * self.share * SPENT;
        }
        let mut paid: BTreeMap<u64, HashMap<u32, Paid>> = BTreeMap::new();
        let mut always: BTreeMap<u64, BTreeMap<Option<CallClass>, HashMap<u32, f64>>> = BTreeMap::new();
        let mut before: Vec<(&CallWindow, u64)> = Vec::new();
        for window in windows.iter().filter(|window| window.cost_ns > 0) {
            let (start_ns, cost_ns) = (window.window_start_ns, window.cost_ns as f64);
            let paid = paid.entry(start_ns).or_default().entry(window.pid).or_default();
            paid.add(window.tid, cost_ns + window.beside_ns as f64);
            let class = self.class_of(window.op);
            match class.filter(|class| self.sliced.contains(class)) {
                Some(class) => {
                    let Some(span) = self.periods.slice(class, window.slice) else {
                        before.extend(self.periods.watched_in(class, window).map(|ns| (window, ns)));
                        continue;
                    };
                    let cost = self.cost_of(window.slice, span.ns());
                    *cost.by_class.entry(class).or_default().entry(window.pid).or_default() += cost_ns;
                }
                None => {
                    let by_class = always.entry(start_ns).or_default().entry(class).or_default();
                    *by_class.entry(window.pid).or_default() += cost_ns / window.window_ns.max(1) as f64;
                }
            }
        }
        for (start_ns, processes) in paid {
            // The look's cost is in the balance from the beginning.
            if start_ns >= self.since_ns && !self.sliced.is_empty() {
                let worst =
                    processes.into_values().max_by(|a, b| a.ns().total_cmp(&b.ns())).unwrap_or_default();
                self.balance_ns -= worst.ns();
                self.payer = worst.payer();
            }
        }
        self.look_back(&before);
        for (_, by_class) in always {
            let worst = |processes: HashMap<u32, f64>| processes.into_values().fold(0.0, f64::max);
            self.always.push_back(
                by_class.into_iter().map(|(class, processes)| (class, worst(processes))).collect(),
            );
        }
        self.always.drain(..self.always.len().saturating_sub(ALWAYS_WINDOWS));
        self.costs.drain(..self.costs.len().saturating_sub(REMEMBERED));
    }

    /// What all calls cost before they were watched in slices, as a share of the time, of the process that paid most: the
    /// dearest of the windows.
    fn look_back(&mut self, windows: &[(&CallWindow, u64)]) {
        let mut processes: HashMap<(u64, u32), f64> = HashMap::new();
        for (window, watched_ns) in windows {
            let share = window.cost_ns as f64 / (*watched_ns).max(MILLISECOND) as f64;
            *processes.entry((window.window_start_ns, window.pid)).or_default() += share;
        }
        if let Some(share) = processes.into_values().max_by(f64::total_cmp) {
            self.whole_share = Some(self.whole_share.map_or(share, |known| known.max(share)));
        }
    }

    fn cost_of(&mut self, number: u8, length_ns: u64) -> &mut SliceCost {
        let place = self.costs.iter().rposition(|cost| cost.number == number).unwrap_or_else(|| {
            self.costs.push_back(SliceCost { number, length_ns, ..SliceCost::default() });
            self.costs.len() - 1
        });
        &mut self.costs[place]
    }

    /// The trace ends: what is still watched ends with it.
    pub(crate) fn finish(&mut self, now_ns: u64) {
        self.periods.finish(now_ns);
    }

    pub(crate) fn forget(&mut self, pid: u32) {
        self.reported.remove(&pid);
    }

    /// What these windows cost, by process.
    pub(crate) fn tracing_costs(&self, windows: &[CallWindow]) -> Vec<TracingCost> {
        let mut threads: HashMap<(u64, u32, u32), u64> = HashMap::new();
        let mut tracing_costs: BTreeMap<(u64, u32), TracingCost> = BTreeMap::new();
        for window in windows.iter().filter(|window| window.cost_ns > 0) {
            let thread = threads.entry((window.window_start_ns, window.pid, window.tid)).or_default();
            *thread += window.cost_ns + window.beside_ns;
            let pct = 100.0 * *thread as f64 / window.window_ns.max(1) as f64;
            let cost =
                tracing_costs.entry((window.window_start_ns, window.pid)).or_insert_with(|| TracingCost {
                    window_start_ns: window.window_start_ns,
                    window_ns: window.window_ns,
                    pid: window.pid,
                    calls: 0,
                    cost_ns: 0,
                    worst_thread_pct: 0.0,
                    level: self.level(window.pid),
                });
            cost.calls += window.count;
            cost.cost_ns += window.cost_ns + window.beside_ns;
            cost.worst_thread_pct = cost.worst_thread_pct.max(pct);
        }
        tracing_costs.into_values().collect()
    }

    fn level(&self, pid: u32) -> Level {
        match self.reported.contains_key(&pid) {
            _ if !self.sliced.is_empty() => Level::Sliced,
            true => Level::NoStacks,
            false => Level::Full,
        }
    }
}

#[cfg(test)]
mod tests;
