//! Threads that take turns, as the main thread and that of a backward pass do, or a client and its server: while one of them
//! runs, the other has nothing to do but wait for it. Where both share a CPU the one that hands over is often preempted by the one
//! it has just woken, before it comes to wait: nothing is taken from it by that.

use crate::activity::Activity;
use crate::evidence::AttributedTime;
use gpuwhy_model::Cause;
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of threads, in both orders.
pub(crate) type Partners = BTreeSet<(u32, u32)>;

/// Threads of which one makes GPU calls, and that wait for each other at least as long as they keep each other from a CPU. Those
/// that only meet at a lock now and then compete.
pub(crate) fn partners(activity: &Activity, attribution: &[AttributedTime]) -> Partners {
    let calls = |tid: u32| activity.callers.contains_key(&tid);
    let of_two = |row: &&AttributedTime| {
        row.tid != row.by_tid && row.by_tid != 0 && (calls(row.tid) || calls(row.by_tid))
    };
    let mut pairs: BTreeMap<(u32, u32), Between> = BTreeMap::new();
    for row in attribution.iter().filter(of_two) {
        let between = pairs.entry((row.tid.min(row.by_tid), row.tid.max(row.by_tid))).or_default();
        match row.cause {
            // A lock that a call takes is no hand-over.
            Cause::LockFutex | Cause::NetWait | Cause::IoFile if row.op.is_none() => {
                between.waited_ns += row.ns;
            }
            Cause::CpuPreempted => between.preempted_ns += row.ns,
            _ => {}
        }
    }
    let take_turns = |between: &Between| between.waited_ns > 0 && between.waited_ns >= between.preempted_ns;
    let both = pairs.into_iter().filter(|(_, between)| take_turns(between));
    both.flat_map(|((one, other), _)| [(one, other), (other, one)]).collect()
}

/// What two threads did to each other.
#[derive(Debug, Default)]
struct Between {
    waited_ns: u64,
    preempted_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Caller, Syscall, ThreadWait};
    use crate::evidence::Evidence;
    use crate::path::{ProcessPath, paths};
    use crate::severity::percent;
    use gpuwhy_model::{OpId, Part, Reason, Span};

    fn row(tid: u32, by_tid: u32, cause: Cause, ns: u64) -> AttributedTime {
        AttributedTime {
            pid: 1,
            tid,
            op: None,
            cause,
            by_pid: 1,
            by_tid,
            by_comm: String::new(),
            by_cgroup_id: 0,
            ns,
            count: 1,
            first_ns: 0,
            last_ns: 0,
        }
    }

    fn found(rows: &[AttributedTime]) -> Vec<(u32, u32)> {
        let caller = Caller { pid: 1, calls: 10, ..Caller::default() };
        let callers = [1, 2].map(|tid| (tid, caller)).into();
        partners(&Activity { callers, ..Activity::default() }, rows).into_iter().collect()
    }

    #[test]
    fn threads_that_hand_over_are_partners_though_they_share_a_cpu() {
        let rows = [
            row(1, 2, Cause::LockFutex, 700),
            row(1, 2, Cause::CpuPreempted, 300),
            row(2, 1, Cause::LockFutex, 200),
            row(2, 1, Cause::CpuPreempted, 400),
        ];
        assert_eq!(found(&rows), [(1, 2), (2, 1)]);
    }

    #[test]
    fn threads_that_compete_for_a_cpu_are_not() {
        assert!(found(&[row(1, 2, Cause::CpuPreempted, 900), row(1, 2, Cause::LockFutex, 100)]).is_empty());
        assert!(found(&[row(1, 2, Cause::CpuPreempted, 0)]).is_empty());
    }

    #[test]
    fn a_server_is_the_partner_of_who_waits_for_its_answers() {
        let rows = [row(1, 3, Cause::NetWait, 900), row(1, 3, Cause::CpuPreempted, 800)];
        assert_eq!(found(&rows), [(1, 3), (3, 1)]);
        assert!(found(&[row(1, 3, Cause::NetWait, 700), row(1, 3, Cause::CpuPreempted, 800)]).is_empty());
        assert!(found(&[row(3, 4, Cause::LockFutex, 900)]).is_empty(), "neither of them makes calls");
    }

    #[test]
    fn a_lock_within_calls_is_no_hand_over() {
        let within = AttributedTime { op: Some("cuLaunchKernel".into()), ..row(1, 2, Cause::LockFutex, 900) };
        assert!(found(&[within]).is_empty());
    }

    const MS: u64 = 1_000_000;

    fn wait(tid: u32, from_ms: u64, to_ms: u64, part: Part, by_tid: u32) -> ThreadWait {
        ThreadWait {
            start_ns: from_ms * MS,
            end_ns: to_ms * MS,
            pid: 1,
            tid,
            part,
            op: OpId::NONE,
            by_pid: 1,
            by_tid,
            woken_by: None,
            syscall: Syscall::Other,
            object: None,
        }
    }

    /// Steps of ten milliseconds on one CPU: the main thread runs for four, hands over, is preempted for three by whom it
    /// has woken, and waits for the other three.
    fn evidence() -> Evidence {
        let futex = Part::Blocked(Reason::Futex);
        let of_main = |at| [wait(1, at + 4, at + 7, Part::Runnable, 2), wait(1, at + 7, at + 10, futex, 2)];
        let of_other = |at| wait(2, at, at + 4, futex, 1);
        let steps = (0..100).map(|step| step * 10);
        let caller = Caller { pid: 1, calls: 1_000, first_ns: 0, last_ns: 1_000 * MS };
        Evidence {
            span: Span { start_ns: 0, end_ns: 1_000 * MS },
            attribution: vec![
                row(1, 2, Cause::LockFutex, 300 * MS),
                row(1, 2, Cause::CpuPreempted, 300 * MS),
                row(2, 1, Cause::LockFutex, 400 * MS),
            ],
            activity: Activity {
                waits: steps.flat_map(|at| of_main(at).into_iter().chain([of_other(at)])).collect(),
                callers: [(1, caller), (2, caller)].into(),
                ..Activity::default()
            },
            ..Evidence::default()
        }
    }

    fn share_of(path: &ProcessPath, class: Cause, tid: u32) -> u64 {
        let parts = path.loop_parts.iter().filter(|(key, _)| (key.class, key.tid) == (class, tid));
        let ns: u64 = parts.map(|(_, part)| part.ns).sum();
        (percent(ns, path.phases.repeats.ns())).round() as u64
    }

    #[test]
    fn a_thread_that_hands_over_loses_nothing_to_the_one_it_woke() {
        let evidence = evidence();
        let path = &paths(&evidence)[0];
        assert_eq!(share_of(path, Cause::CpuPreempted, 1), 0);
        assert_eq!((share_of(path, Cause::LaunchBound, 1), share_of(path, Cause::LaunchBound, 2)), (40, 60));
    }

    #[test]
    fn a_command_that_imports_first_was_forked_before_the_trace_and_has_a_start() {
        let mut evidence = evidence();
        for wait in &mut evidence.activity.waits {
            wait.start_ns += 400 * MS;
            wait.end_ns += 400 * MS;
        }
        for caller in evidence.activity.callers.values_mut() {
            (caller.first_ns, caller.last_ns) = (300 * MS, 1_400 * MS);
        }
        evidence.span.end_ns = 1_400 * MS;
        // Nothing says that its calls began here: it may have been in its loop for long.
        assert_eq!(paths(&evidence)[0].phases.start, None);
        evidence.activity.first_load.insert(1, 310 * MS);
        let start = paths(&evidence)[0].phases.start.unwrap();
        assert!((400 * MS..450 * MS).contains(&start.end_ns), "{start:?}");
    }

    #[test]
    fn waits_too_short_to_be_recorded_go_where_the_recorded_ones_of_the_same_pair_go() {
        // The main thread waits for a server over a socket. Of its waits, half of the time is recorded; in those the server sleeps.
        let of_step = |at| {
            [
                wait(1, at, at + 6, Part::Blocked(Reason::Socket), 3),
                wait(3, at, at + 6, Part::Blocked(Reason::Sleep), 0),
            ]
        };
        let caller = Caller { pid: 1, calls: 1_000, first_ns: 0, last_ns: 1_000 * MS };
        let name = |pid| crate::activity::ThreadName { pid, comm: "python3".into() };
        let evidence = Evidence {
            span: Span { start_ns: 0, end_ns: 1_000 * MS },
            attribution: vec![row(1, 3, Cause::NetWait, 600 * MS)],
            activity: Activity {
                waits: (0..50).flat_map(|step| of_step(step * 20)).collect(),
                callers: [(1, caller)].into(),
                threads: [(1, name(1)), (3, name(3))].into(),
                ..Activity::default()
            },
            ..Evidence::default()
        };
        let path = &paths(&evidence)[0];
        assert_eq!(share_of(path, Cause::NetWait, 1), 0);
        assert!((59..=62).contains(&share_of(path, Cause::SelfSleep, 3)));
    }

    #[test]
    fn a_thread_that_competes_does() {
        let mut evidence = evidence();
        evidence.attribution = vec![row(1, 2, Cause::CpuPreempted, 300 * MS)];
        assert_eq!(share_of(&paths(&evidence)[0], Cause::CpuPreempted, 1), 30);
    }
}
