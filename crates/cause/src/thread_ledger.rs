//! The ledger of a thread that drives a GPU: what it did while it was in no call, and did not launch.

use crate::bills::{Bills, Share, Who};
use crate::evidence::Billed;
use gpuwhy_model::{Cause, Span};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct ThreadLedger {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// From its first window with calls to its last.
    pub(crate) span: Span,
    pub(crate) calls: u64,
    pub(crate) in_calls_ns: u64,
    /// Waits between calls that something took from it.
    pub(crate) taken: Bills,
    /// Of what was taken: through others that it waited for.
    pub(crate) through_ns: u64,
    /// All waits between calls.
    pub(crate) waits: Bills,
}

impl ThreadLedger {
    /// Its own computing between calls.
    pub(crate) fn computing_ns(&self) -> u64 {
        self.span.ns().saturating_sub(self.in_calls_ns + self.waits.total_ns())
    }
}

/// Waits that are nobody's fault between calls: a server waits for requests, a loop sleeps, a worker for its queue.
/// They are somebody's where the one it waited for was itself kept from going on.
pub(crate) fn is_idle(cause: Cause) -> bool {
    !cause.is_taken() || matches!(cause, Cause::LockFutex | Cause::IoFile)
}

/// Sums are kept by windows of this length.
pub(crate) const WINDOW_NS: u64 = 500_000_000;

/// Every thread with a good part of its process's calls.
pub(crate) fn thread_ledgers(bills: &[Billed], is_library: impl Fn(&str) -> bool) -> Vec<ThreadLedger> {
    let mut threads: BTreeMap<(u32, u32), ThreadLedger> = BTreeMap::new();
    for row in bills.iter().filter(|row| row.op.as_deref().is_some_and(&is_library)) {
        let thread = threads.entry((row.pid, row.tid)).or_insert_with(|| ThreadLedger {
            pid: row.pid,
            tid: row.tid,
            span: Span { start_ns: u64::MAX, end_ns: 0 },
            calls: 0,
            in_calls_ns: 0,
            taken: Bills::default(),
            through_ns: 0,
            waits: Bills::default(),
        });
        thread.span.start_ns = thread.span.start_ns.min(row.first_ns);
        thread.span.end_ns = thread.span.end_ns.max(row.last_ns + WINDOW_NS);
        thread.in_calls_ns += row.ns;
        // Of waits it is the number of waits.
        if row.by_pid == 0 && matches!(row.cause, Cause::CpuSelf | Cause::GpuWait | Cause::GpuAlloc) {
            thread.calls += row.count;
        }
    }
    let mut by_process: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in threads.values() {
        *by_process.entry(thread.pid).or_default() += thread.calls;
    }
    let callers: BTreeSet<(u32, u32)> = threads.keys().copied().collect();
    threads.retain(|(pid, _), thread| thread.calls * 10 >= by_process[pid]);
    // While one waits for a sibling that makes the calls instead, the process launches: backward passes have a thread of
    // their own.
    let is_handed_on = |row: &Billed| {
        row.cause == Cause::LockFutex
            && row.by_pid == row.pid
            && row.by_tid != row.tid
            && callers.contains(&(row.by_pid, row.by_tid))
    };
    let between: Vec<&Billed> = bills.iter().filter(|row| row.op.is_none() && !is_handed_on(row)).collect();
    for row in &between {
        if let Some(thread) = threads.get_mut(&(row.pid, row.tid)) {
            thread.waits.add_billed(row.cause, row);
            if !is_idle(row.cause) {
                thread.taken.add_billed(row.cause, row);
            }
        }
    }
    let mut ledgers: Vec<ThreadLedger> = threads.into_values().collect();
    for ledger in &mut ledgers {
        follow_wakers(ledger, &between);
    }
    ledgers
}

/// A thread that waits for another one (a data loader, a worker) is kept by what keeps that one.
fn follow_wakers(ledger: &mut ThreadLedger, between: &[&Billed]) {
    let mine = |row: &&&Billed| (row.pid, row.tid) == (ledger.pid, ledger.tid);
    let mut idle_by: BTreeMap<(u32, u32), (String, u64)> = BTreeMap::new();
    for row in between.iter().filter(mine).filter(|row| is_idle(row.cause) && row.by_pid != 0) {
        let entry = idle_by.entry((row.by_pid, row.by_tid)).or_insert((row.by_comm.clone(), 0));
        entry.1 += row.ns;
    }
    for ((pid, tid), (comm, waited_ns)) in idle_by {
        let theirs: Vec<&&Billed> =
            between.iter().filter(|row| (row.pid, row.tid) == (pid, tid) && !is_idle(row.cause)).collect();
        let kept_ns: u64 = theirs.iter().map(|row| row.ns).sum();
        if kept_ns == 0 {
            continue;
        }
        // No more of it than there is, and no more than was waited.
        let share = (waited_ns as f64 / kept_ns as f64).min(1.0);
        for row in theirs {
            let ns = (row.ns as f64 * share) as u64;
            let part = Billed { ns, ..(**row).clone() };
            ledger.taken.add_billed(row.cause, &part);
            ledger.through_ns += ns;
            if row.by_pid == 0 {
                let through =
                    Share { comm: comm.clone(), pid: Some(pid), ns, count: row.count, ..Share::default() };
                ledger.taken.blame(row.cause, Who::Process(pid), through);
            }
            ledger
                .taken
                .say(row.cause, format!("the thread waited for {comm} ({tid}), which was kept by this"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, op: Option<&str>, cause: Cause, by: (u32, &str), ns: u64) -> Billed {
        Billed {
            pid: if tid < 100 { 7 } else { 8 },
            tid,
            op: op.map(ToString::to_string),
            cause,
            by_pid: if by.0 == 100 { 8 } else { by.0 },
            by_tid: by.0,
            by_comm: by.1.into(),
            by_cgroup_id: 0,
            ns,
            count: 10,
            first_ns: 0,
            last_ns: 9_500_000_000,
        }
    }

    #[test]
    fn only_threads_that_launch_have_a_ledger() {
        let rows = [
            row(7, Some("cuLaunchKernel"), Cause::CpuSelf, (0, ""), 1_000_000),
            row(7, None, Cause::IoBlock, (0, ""), 2_000_000_000),
            row(7, None, Cause::NetWait, (55, "client"), 1_000_000_000),
            row(9, None, Cause::IoBlock, (0, ""), 9_000_000_000),
        ];
        let ledgers = thread_ledgers(&rows, |_| true);
        assert_eq!(ledgers.len(), 1);
        assert_eq!(ledgers[0].taken.total_ns(), 2_000_000_000);
        assert_eq!(ledgers[0].waits.total_ns(), 3_000_000_000);
        assert_eq!(ledgers[0].computing_ns(), 10_000_000_000 - 3_001_000_000);
    }

    #[test]
    fn who_waits_for_a_sibling_that_launches_is_not_idle() {
        let rows = [
            row(7, Some("cuLaunchKernel"), Cause::CpuSelf, (0, ""), 1_000_000),
            row(8, Some("cuLaunchKernel"), Cause::CpuSelf, (0, ""), 1_000_000),
            Billed { by_pid: 7, by_tid: 8, ..row(7, None, Cause::LockFutex, (7, "backward"), 4_000_000_000) },
        ];
        let ledgers = thread_ledgers(&rows, |_| true);
        assert_eq!(ledgers.iter().map(|ledger| ledger.waits.total_ns()).sum::<u64>(), 0);
    }

    #[test]
    fn who_waits_for_a_loader_waits_for_its_disk() {
        let rows = [
            row(7, Some("cuLaunchKernel"), Cause::CpuSelf, (0, ""), 1_000_000),
            row(7, None, Cause::LockFutex, (100, "loader"), 4_000_000_000),
            row(100, None, Cause::IoBlock, (0, ""), 6_000_000_000),
        ];
        let ledgers = thread_ledgers(&rows, |_| true);
        assert_eq!(ledgers[0].taken.main(), Some(Cause::IoBlock));
        assert_eq!(ledgers[0].taken.total_ns(), 4_000_000_000);
        let shares = ledgers[0].taken.shares(|_| None);
        assert_eq!((shares[0].by[0].pid, shares[0].by[0].comm.as_str()), (Some(8), "loader"));
    }
}
