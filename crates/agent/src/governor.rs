//! Keeps what being watched costs a thread within its budget. The kernel does at once what it can (no stacks, sampling,
//! counting only); this lets go of functions that are called too often even for that, takes them back when the debt has
//! drained, and writes the bill. Pure: time comes in with what happened.

use gpuwhy_model::{Bill, CallWindow, Level, LevelChange};
use gpuwhy_probes::{Budget, Flavour, TrapCost};
use std::collections::HashMap;

/// A thread may be so many seconds' worth of its budget in debt: short bursts are seen whole.
const ROOM_S: f64 = 6.0;
/// Less than all of the budget drains, so that a run's first burst is paid back too.
const DRAIN: f64 = 0.65;
/// The room that has to be free before a function is attached again.
const FREE_AGAIN: f64 = 0.125;
/// A probed call in empty pairs, with the work of our programs; see `bench/`.
const PAIR_OVER_EMPTY: f64 = 1.75;
/// An entry alone, in empty pairs: session probes spare the return.
const ENTRY_OVER_EMPTY: f64 = 0.8;
const KEPT_NS: u64 = 1_000;
const STACK_NS: u64 = 12_000;
/// Where the trap's cost could not be measured.
const ASSUMED_PAIR_NS: f64 = 2_500.0;
/// A level is told of again after so long.
const TELL_EVERY_NS: u64 = 10_000_000_000;

/// What the budget means in nanoseconds on this machine.
pub(crate) fn budget_of(share: f64, flavour: Flavour, trap: Option<TrapCost>) -> Budget {
    let empty = trap.map_or(ASSUMED_PAIR_NS, |trap| trap.ns);
    let pair_ns = (empty * PAIR_OVER_EMPTY) as u64;
    Budget {
        capacity_ns: (share * ROOM_S * 1e9) as u64,
        drain: share * DRAIN,
        // Only session probes spare the return.
        entry_ns: if flavour == Flavour::Session { (empty * ENTRY_OVER_EMPTY) as u64 } else { pair_ns },
        pair_ns,
        kept_ns: KEPT_NS,
        stack_ns: STACK_NS,
    }
}

/// A function, by its number and that of its library file.
pub(crate) type FunctionKey = (u16, u16);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Detach {
        function: FunctionKey,
        pid: u32,
    },
    Attach {
        function: FunctionKey,
    },
    /// A process got to another level: worth a line in the trace.
    Tell {
        pid: u32,
        level: Level,
    },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Governor {
    capacity_ns: u64,
    drain: f64,
    /// Functions that are detached, and until when.
    detached: HashMap<FunctionKey, u64>,
    /// The deepest level of a process since it was last told of, and when that was.
    told: HashMap<u32, (Level, u64)>,
    /// The deepest level of a process in the windows to come.
    levels: HashMap<u32, Level>,
}

impl Governor {
    pub(crate) fn new(budget: &Budget) -> Self {
        Governor { capacity_ns: budget.capacity_ns, drain: budget.drain, ..Governor::default() }
    }

    /// What follows from threads getting to other levels.
    pub(crate) fn take(&mut self, changes: &[LevelChange], now_ns: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        for change in changes {
            let level = self.levels.entry(change.pid).or_default();
            *level = (*level).max(change.level);
            let function = (change.rule, change.library);
            if change.level == Level::Detach && !self.detached.contains_key(&function) {
                self.detached.insert(function, now_ns + self.drain_ns(change, now_ns));
                actions.push(Action::Detach { function, pid: change.pid });
            }
            let last = self.told.get(&change.pid).copied();
            if last.is_none_or(|(level, told)| {
                level != change.level && (change.level > level || now_ns >= told + TELL_EVERY_NS)
            }) {
                self.told.insert(change.pid, (change.level, now_ns));
                if change.level != Level::Full || last_is_deeper(last) {
                    actions.push(Action::Tell { pid: change.pid, level: change.level });
                }
            }
        }
        actions
    }

    /// How long until there is room again. What the thread did until now has come to its debt since.
    fn drain_ns(&self, change: &LevelChange, now_ns: u64) -> u64 {
        let debt = change.debt_ns + now_ns.saturating_sub(change.time_ns);
        let target = self.capacity_ns as f64 * (1.0 - FREE_AGAIN);
        ((debt as f64 - target).max(0.0) / self.drain.max(f64::MIN_POSITIVE)) as u64
    }

    /// Functions whose time has come.
    pub(crate) fn due(&mut self, now_ns: u64) -> Vec<Action> {
        let due: Vec<FunctionKey> = self
            .detached
            .iter()
            .filter(|(_, until)| **until <= now_ns)
            .map(|(function, _)| *function)
            .collect();
        for function in &due {
            self.detached.remove(function);
        }
        due.into_iter().map(|function| Action::Attach { function }).collect()
    }

    pub(crate) fn forget(&mut self, pid: u32) {
        self.told.remove(&pid);
        self.levels.remove(&pid);
    }

    /// What these windows cost, by process.
    pub(crate) fn bills(&mut self, windows: &[CallWindow]) -> Vec<Bill> {
        let mut threads: HashMap<(u64, u32, u32), u64> = HashMap::new();
        let mut bills: HashMap<(u64, u32), Bill> = HashMap::new();
        for window in windows.iter().filter(|window| window.cost_ns > 0) {
            let thread = threads.entry((window.window_start_ns, window.pid, window.tid)).or_default();
            *thread += window.cost_ns;
            let pct = 100.0 * *thread as f64 / window.window_ns.max(1) as f64;
            let bill = bills.entry((window.window_start_ns, window.pid)).or_insert_with(|| Bill {
                window_start_ns: window.window_start_ns,
                window_ns: window.window_ns,
                pid: window.pid,
                calls: 0,
                cost_ns: 0,
                worst_thread_pct: 0.0,
                level: self.levels.get(&window.pid).copied().unwrap_or_default(),
            });
            bill.calls += window.count;
            bill.cost_ns += window.cost_ns;
            bill.worst_thread_pct = bill.worst_thread_pct.max(pct);
        }
        // Levels that are still there are told again by the kernel when they change.
        for (_, pid) in bills.keys() {
            if let Some((level, _)) = self.told.get(pid) {
                self.levels.insert(*pid, *level);
            }
        }
        let mut bills: Vec<Bill> = bills.into_values().collect();
        bills.sort_by_key(|bill| (bill.window_start_ns, bill.pid));
        bills
    }
}

fn last_is_deeper(last: Option<(Level, u64)>) -> bool {
    last.is_some_and(|(level, _)| level != Level::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn governor() -> Governor {
        let trap = TrapCost { flavour: Flavour::Session, ns: 1_000.0 };
        Governor::new(&budget_of(0.01, Flavour::Session, Some(trap)))
    }

    fn change(level: Level, time_ns: u64, debt_ns: u64) -> LevelChange {
        LevelChange { time_ns, pid: 7, tid: 8, level, debt_ns, rule: 3, library: 1 }
    }

    #[test]
    fn a_budget_is_room_and_drain() {
        let budget = budget_of(0.01, Flavour::Session, None);
        assert_eq!(budget.capacity_ns, 60_000_000);
        assert!(budget.entry_ns < budget.pair_ns);
        let multi = budget_of(0.01, Flavour::Multi, None);
        assert_eq!(multi.entry_ns, multi.pair_ns, "a return that is not wanted traps all the same");
    }

    #[test]
    fn what_is_called_too_often_is_detached_until_its_debt_has_drained() {
        let mut governor = governor();
        let over = [change(Level::Detach, 0, 60_000_000)];
        let actions = governor.take(&over, 0);
        assert!(actions.contains(&Action::Detach { function: (3, 1), pid: 7 }), "{actions:?}");
        assert!(
            !governor.take(&over, 1).iter().any(|action| matches!(action, Action::Detach { .. })),
            "once"
        );
        assert_eq!(governor.due(SECOND), Vec::new(), "an eighth of 60 ms takes 1.15 s at 0.65%");
        assert_eq!(governor.due(2 * SECOND), vec![Action::Attach { function: (3, 1) }]);
        assert_eq!(governor.due(3 * SECOND), Vec::new());
        let again = governor.take(&[change(Level::Detach, 3 * SECOND, 60_000_000)], 3 * SECOND);
        assert!(again.contains(&Action::Detach { function: (3, 1), pid: 7 }));
    }

    /// Whatever a thread does, over time it does not pay more than its budget and the room.
    #[test]
    fn cost_stays_within_the_budget() {
        let mut governor = governor();
        let (mut now, mut debt, mut paid) = (0u64, 0.0f64, 0u64);
        let mut attached = true;
        const STEP: u64 = 1_000_000;
        while now < 60 * SECOND {
            now += STEP;
            debt = (debt - STEP as f64 * governor.drain).max(0.0);
            if attached {
                // Nothing but traps.
                debt += STEP as f64;
                paid += STEP;
                if debt >= governor.capacity_ns as f64 {
                    let told = [change(Level::Detach, now, debt as u64)];
                    attached = !governor.take(&told, now).iter().any(|a| matches!(a, Action::Detach { .. }));
                }
            } else if !governor.due(now).is_empty() {
                attached = true;
            }
        }
        assert!(paid <= 60 * SECOND / 100, "{} ms of 60 s", paid / 1_000_000);
        assert!(paid >= 60 * SECOND / 200, "and it makes use of it: {} ms", paid / 1_000_000);
    }

    #[test]
    fn levels_are_told_when_they_change() {
        let mut governor = governor();
        let told = |actions: &[Action]| actions.iter().filter(|a| matches!(a, Action::Tell { .. })).count();
        assert_eq!(told(&governor.take(&[change(Level::NoStacks, 0, 0)], 0)), 1);
        assert_eq!(told(&governor.take(&[change(Level::NoStacks, 1, 0)], 1)), 0);
        assert_eq!(told(&governor.take(&[change(Level::Sample, 2, 0)], 2)), 1, "deeper at once");
        assert_eq!(told(&governor.take(&[change(Level::Full, 3, 0)], 3)), 0, "back up not at once");
        assert_eq!(told(&governor.take(&[change(Level::Full, 0, 0)], 20 * SECOND)), 1);
    }
}
