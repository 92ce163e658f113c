//! All copies of a process, by window and direction.

use crate::cgroups::Cgroups;
use gpuwhy_model::{CallWindow, CopyWindow, Direction};
use std::collections::BTreeMap;

/// Sums over the threads and functions that copied.
pub(crate) fn copies(windows: &[CallWindow], cgroups: &Cgroups) -> Vec<CopyWindow> {
    let mut sums: BTreeMap<(u64, u32, Direction), CopyWindow> = BTreeMap::new();
    for window in windows {
        let Some(direction) = window.direction else { continue };
        let sum = sums.entry((window.window_start_ns, window.pid, direction)).or_insert_with(|| CopyWindow {
            window_start_ns: window.window_start_ns,
            window_ns: 0,
            pid: window.pid,
            cgroup_id: cgroups.of(window.pid),
            direction,
            count: 0,
            bytes: 0,
            sum_ns: 0,
            errors: 0,
        });
        sum.window_ns = sum.window_ns.max(window.window_ns);
        sum.count += window.count;
        sum.bytes += window.bytes;
        sum.sum_ns += window.sum_ns;
        sum.errors += window.errors;
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PID, exit};
    use gpuwhy_model::{Batch, Blame, Histogram, OpId, Process, ProcessEvent, ProcessEventKind};

    fn window(start_ns: u64, pid: u32, tid: u32, direction: Option<Direction>) -> CallWindow {
        CallWindow {
            window_start_ns: start_ns,
            window_ns: 500,
            pid,
            tid,
            op: OpId(tid as u16),
            direction,
            count: 2,
            errors: 1,
            kept: 0,
            bytes: 10,
            sum_ns: 100,
            min_ns: 1,
            max_ns: 99,
            blame: Blame::default(),
            hist: Histogram::default(),
            cost_ns: 0,
            beside_ns: 0,
            slice: 0,
        }
    }

    #[test]
    fn threads_and_functions_are_summed() {
        let mut cgroups = Cgroups::new();
        let forked = ProcessEvent { kind: ProcessEventKind::Fork, child: 8, cgroup_id: 55, ..exit(1) };
        let process = Process { pid: PID, cgroup_id: 66, ..Process::default() };
        cgroups.learn(&Batch { process_events: vec![forked], processes: vec![process], ..Batch::default() });
        let up = Some(Direction::HostToDevice);
        let rows = copies(
            &[
                window(0, PID, 1, up),
                window(0, PID, 2, up),
                window(0, PID, 1, Some(Direction::Peer)),
                window(0, PID, 1, None),
                window(500, PID, 1, up),
                window(0, 8, 8, up),
                window(0, 9, 9, up),
            ],
            &cgroups,
        );
        let seen: Vec<_> =
            rows.iter().map(|row| (row.window_start_ns, row.pid, row.count, row.cgroup_id)).collect();
        assert_eq!(seen, [(0, PID, 4, 66), (0, PID, 2, 66), (0, 8, 2, 55), (0, 9, 2, 0), (500, PID, 2, 66)]);
        assert_eq!((rows[0].bytes, rows[0].sum_ns, rows[0].errors, rows[0].window_ns), (20, 200, 2, 500));
    }
}
