//! Processes outside the trace that wake its threads: a critical path goes on in them, so their waits are recorded too.

use gpuwhy_model::{Batch, Part, ProcessEventKind, Reason, WaitEvent, WokenBy};
use std::collections::HashSet;

/// Followed at a time: beyond that a path ends at whoever else wakes.
pub(crate) const MAX_WAKERS: usize = 32;
/// Who ends a shorter wait is no place to look for lost time.
const MIN_WAIT_NS: u64 = 1_000_000;
/// Processes remembered as looked at; beyond it all are forgotten.
const MAX_KNOWN: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Wakers {
    followed: HashSet<u32>,
    /// Targets that the kernel knows as wakers.
    marked: HashSet<u32>,
    /// Kernel threads, and processes that were gone.
    rejected: HashSet<u32>,
    is_full: bool,
}

/// What is to be done about the wakers of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// To follow from now on.
    pub(crate) new: Vec<u32>,
    /// Targets that wake others.
    pub(crate) targets: Vec<u32>,
    /// There are more than can be followed; said once.
    pub(crate) is_full: bool,
}

impl Wakers {
    /// `own` is never followed; `is_user` tells a living process from a kernel thread.
    pub(crate) fn find(
        &mut self,
        batch: &Batch,
        own: u32,
        is_target: impl Fn(u32) -> bool,
        is_user: impl Fn(u32) -> bool,
    ) -> Found {
        for event in batch.process_events.iter().filter(|event| event.kind == ProcessEventKind::Exit) {
            self.followed.remove(&event.pid);
            self.marked.remove(&event.pid);
        }
        let mut found = Found::default();
        for pid in batch.wait_events.iter().filter_map(waker) {
            let is_known =
                [&self.followed, &self.marked, &self.rejected].iter().any(|known| known.contains(&pid));
            if is_known || pid == own || pid == 1 {
                continue;
            }
            if is_target(pid) {
                remember(&mut self.marked, pid);
                found.targets.push(pid);
            } else if !is_user(pid) {
                remember(&mut self.rejected, pid);
            } else if self.followed.len() < MAX_WAKERS {
                self.followed.insert(pid);
                found.new.push(pid);
            } else {
                found.is_full = !std::mem::replace(&mut self.is_full, true);
            }
        }
        found
    }
}

fn remember(known: &mut HashSet<u32>, pid: u32) {
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(pid);
}

/// The other process that ended a wait on purpose.
fn waker(wait: &WaitEvent) -> Option<u32> {
    let is_for_others =
        matches!(wait.part, Part::Blocked(Reason::Futex | Reason::File | Reason::Socket | Reason::Poll));
    let is_on_purpose = wait.woken_by == Some(WokenBy::Task) && wait.by_pid != 0 && wait.by_pid != wait.pid;
    (is_for_others && is_on_purpose && wait.duration_ns >= MIN_WAIT_NS).then_some(wait.by_pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{OpId, ProcessEvent};

    fn wait(by_pid: u32) -> WaitEvent {
        WaitEvent {
            start_ns: 0,
            duration_ns: MIN_WAIT_NS,
            pid: 7,
            tid: 7,
            cgroup_id: 0,
            op: OpId::NONE,
            part: Part::Blocked(Reason::File),
            by_pid,
            by_tid: by_pid,
            by_comm: String::new(),
            cpu: 0,
            target_cpu: 0,
            node: 0,
            address: 0,
            file: None,
            socket: None,
            syscall: None,
            woken_by: Some(WokenBy::Task),
        }
    }

    fn find(wakers: &mut Wakers, waits: Vec<WaitEvent>) -> Found {
        let batch = Batch { wait_events: waits, ..Batch::default() };
        wakers.find(&batch, 5, |pid| pid == 8, |pid| pid != 3)
    }

    #[test]
    fn another_process_that_wakes_on_purpose_is_followed_once() {
        let mut wakers = Wakers::default();
        let timer = WaitEvent { woken_by: Some(WokenBy::Timer), ..wait(20) };
        let short = WaitEvent { duration_ns: MIN_WAIT_NS - 1, ..wait(21) };
        let disk = WaitEvent { part: Part::Blocked(Reason::BlockIo), ..wait(22) };
        let found = find(&mut wakers, vec![wait(9), wait(9), timer, short, disk]);
        assert_eq!(found, Found { new: vec![9], ..Found::default() });
        assert_eq!(find(&mut wakers, vec![wait(9)]), Found::default());
    }

    #[test]
    fn the_agent_init_kernel_threads_and_the_process_itself_are_not_followed() {
        let waits = vec![wait(5), wait(1), wait(3), wait(7), wait(0)];
        assert_eq!(find(&mut Wakers::default(), waits), Found::default());
    }

    #[test]
    fn a_target_that_wakes_is_marked_once() {
        let mut wakers = Wakers::default();
        assert_eq!(find(&mut wakers, vec![wait(8), wait(8)]).targets, [8]);
        assert_eq!(find(&mut wakers, vec![wait(8)]), Found::default());
    }

    #[test]
    fn the_limit_is_reported_once_and_an_end_makes_room() {
        let mut wakers = Wakers::default();
        let many = (100..=100 + MAX_WAKERS as u32).map(wait).collect();
        let found = find(&mut wakers, many);
        assert_eq!((found.new.len(), found.is_full), (MAX_WAKERS, true));
        assert_eq!(find(&mut wakers, vec![wait(200)]), Found::default());
        let exit = ProcessEvent {
            time_ns: 0,
            kind: ProcessEventKind::Exit,
            pid: 100,
            tid: 100,
            child: 0,
            exit_code: 0,
            cgroup_id: 0,
            comm: String::new(),
            waits_only: true,
        };
        let batch = Batch { process_events: vec![exit], wait_events: vec![wait(200)], ..Batch::default() };
        assert_eq!(wakers.find(&batch, 5, |_| false, |_| true).new, [200]);
    }
}
