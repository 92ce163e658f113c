//! The walk: from the end backwards along the wake-ups. A thread that ran is on the path where it ran; while it waited for a
//! followed thread, that one is on the path with what it did meanwhile; a wait that nobody followed ended is itself on the
//! path. What the other thread did before the wait began delayed nobody: it is left out, so that what a part costs is what
//! removing it saves.

use super::timeline::Timelines;
use crate::activity::ThreadWait;
use gpuwhy_model::{Part, Reason, Span, WokenBy};

/// A part of the path, within one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) span: Span,
    pub(crate) tid: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Running,
    Waiting(ThreadWait),
}

/// A wait that handed the path to the one who ended it: the way there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub(crate) wait: ThreadWait,
}

#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Latest first.
    pub(crate) segments: Vec<Segment>,
    pub(crate) hops: Vec<Hop>,
}

/// Who waits for one who waits for another: a longer chain than this is a circle.
const MAX_DEPTH: usize = 16;

/// Whether the wait is followed to whoever ended it.
pub(crate) trait HandsOn {
    fn hands_on(&self, wait: &ThreadWait) -> bool;
}

/// What one thread's time was, from the end to the beginning: its waits for others are what these did meanwhile.
pub(crate) fn walk(timelines: &Timelines, root: u32, span: Span, rule: &impl HandsOn) -> Walk {
    let mut walk = Walk::default();
    let mut now = span.end_ns;
    // The thread the path is in, and how far back: to the beginning of the wait through which it was reached.
    let mut threads = vec![(root, span.start_ns)];
    while let Some((tid, floor)) = threads.last().copied() {
        if now <= floor {
            threads.pop();
            continue;
        }
        let Some(wait) = timelines.last_before(tid, now) else {
            walk.push(floor, now, tid, What::Running);
            now = floor;
            continue;
        };
        let end_ns = wait.end_ns.min(now);
        walk.push(end_ns.max(floor), now, tid, What::Running);
        now = end_ns.max(floor);
        if end_ns <= floor {
            continue;
        }
        let begin = wait.start_ns.max(floor);
        // Of a wait that lasted longer than this part of the path the end is not the reason.
        let is_whole = wait.end_ns <= end_ns;
        let is_new = threads.iter().all(|(on_path, _)| *on_path != wait.by_tid);
        if is_whole
            && is_new
            && threads.len() < MAX_DEPTH
            && timelines.is_followed(wait.by_tid)
            && rule.hands_on(wait)
        {
            walk.hops.push(Hop { wait: *wait });
            threads.push((wait.by_tid, begin));
        } else {
            walk.push(begin, now, tid, What::Waiting(*wait));
            now = begin;
        }
    }
    walk
}

impl Walk {
    fn push(&mut self, start_ns: u64, end_ns: u64, tid: u32, what: What) {
        if end_ns > start_ns {
            self.segments.push(Segment { span: Span { start_ns, end_ns }, tid, what });
        }
    }
}

/// Waits that end because another thread did something, whatever the program.
pub(crate) fn is_for_another(wait: &ThreadWait) -> bool {
    wait.by_tid != 0
        && wait.by_tid != wait.tid
        && wait.woken_by != Some(WokenBy::Timer)
        && matches!(
            wait.part,
            Part::Blocked(Reason::Futex | Reason::File | Reason::Socket | Reason::Poll | Reason::Other)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Activity, Syscall, ThreadSample};
    use gpuwhy_model::OpId;

    struct Always;
    impl HandsOn for Always {
        fn hands_on(&self, wait: &ThreadWait) -> bool {
            is_for_another(wait)
        }
    }

    fn wait(tid: u32, start_ns: u64, end_ns: u64, reason: Reason, by_tid: u32) -> ThreadWait {
        ThreadWait {
            start_ns,
            end_ns,
            pid: 1,
            tid,
            part: Part::Blocked(reason),
            op: OpId::NONE,
            by_pid: u32::from(by_tid != 0),
            by_tid,
            woken_by: None,
            syscall: Syscall::Other,
            object: None,
        }
    }

    fn sample(tid: u32) -> ThreadSample {
        ThreadSample {
            time_ns: 0,
            pid: 1,
            tid,
            part: Part::OnCpu,
            op: OpId::NONE,
            stack_id: None,
            weight_ns: 1,
            in_gc: false,
            syscall: Syscall::Other,
            in_fault: false,
        }
    }

    fn walked(waits: Vec<ThreadWait>, followed: &[u32], end_ns: u64) -> Vec<(u64, u64, u32, &'static str)> {
        let samples = followed.iter().map(|tid| sample(*tid)).collect();
        let timelines = Timelines::new(&Activity { waits, samples, ..Activity::default() });
        let walk = walk(&timelines, 1, Span { start_ns: 0, end_ns }, &Always);
        let total: u64 = walk.segments.iter().map(|segment| segment.span.ns()).sum();
        assert_eq!(total, end_ns, "the path has no gap and nothing twice");
        let named = |segment: &Segment| {
            let what = match segment.what {
                What::Running => "running",
                What::Waiting(wait) => wait.part.name(),
            };
            (segment.span.start_ns, segment.span.end_ns, segment.tid, what)
        };
        walk.segments.iter().rev().map(named).collect()
    }

    #[test]
    fn a_wait_that_nobody_ended_is_on_the_path() {
        let waits = vec![wait(1, 10, 40, Reason::Sleep, 0)];
        assert_eq!(
            walked(waits, &[], 50),
            [(0, 10, 1, "running"), (10, 40, 1, "sleep"), (40, 50, 1, "running")]
        );
    }

    #[test]
    fn a_wait_for_a_followed_thread_hands_the_path_to_it() {
        // 1 waits for 2, which has slept for a while then, and computes; 2 had waited for 1 before.
        let waits = vec![
            wait(1, 20, 80, Reason::Futex, 2),
            wait(2, 0, 15, Reason::Futex, 1),
            wait(2, 30, 70, Reason::Sleep, 0),
        ];
        assert_eq!(
            walked(waits, &[], 100),
            [
                (0, 20, 1, "running"),
                (20, 30, 2, "running"),
                (30, 70, 2, "sleep"),
                (70, 80, 2, "running"),
                (80, 100, 1, "running")
            ]
        );
    }

    #[test]
    fn one_who_is_not_followed_leaves_the_wait_on_the_path() {
        let waits = vec![wait(1, 20, 80, Reason::Socket, 9)];
        assert_eq!(walked(waits.clone(), &[], 80), [(0, 20, 1, "running"), (20, 80, 1, "socket")]);
        assert_eq!(walked(waits, &[9], 80), [(0, 20, 1, "running"), (20, 80, 9, "running")]);
    }

    #[test]
    fn threads_that_wake_each_other_at_one_moment_end() {
        let waits = vec![wait(1, 0, 50, Reason::Futex, 2), wait(2, 0, 50, Reason::Futex, 1)];
        let path = walked(waits, &[], 50);
        assert_eq!(path.len(), 1);
        assert_eq!(path[0].3, "futex");
    }

    #[test]
    fn a_fault_that_waits_for_its_disk_counts_once() {
        let waits = vec![wait(1, 10, 40, Reason::Fault, 0), wait(1, 12, 38, Reason::BlockIo, 0)];
        assert_eq!(walked(waits, &[], 40), [(0, 10, 1, "running"), (10, 40, 1, "fault")]);
    }
}
