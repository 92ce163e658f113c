//! The GPU driver's ioctls: kept ones and sums.

use crate::made::{START, lines, plain, trace, window};
use gpuwhy_model::{Batch, Blame, Call, Facts, OpId, Process, Reason};

#[test]
fn ioctls_are_told_by_device_and_command() {
    let mut blame = Blame { oncpu_ns: 100, ..Blame::default() };
    blame.blocked_ns[Reason::Ioctl as usize] = 600;
    let ioctl = Call { op: OpId(8), handle: 0xc020_462a, ret: -11, cgroup_id: 7, blame, ..plain(1) };
    let process = |start_ns, cgroup: &str| Process {
        pid: 10,
        start_ns,
        cgroup: cgroup.into(),
        cgroup_id: 7,
        ..Process::default()
    };
    let batch = Batch {
        calls: vec![plain(0), ioctl],
        windows: vec![window(0, 11, 8, &[500, 900]), window(1, 11, 8, &[100]), window(0, 11, 2, &[1])],
        processes: vec![
            process(5, "/old"),
            process(START, "/job"),
            process(START + 10_000_000_000, "/later"),
        ],
        ..Batch::default()
    };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, duration_ns, op, pid, tid, cgroup_id, device, cmd, ret, kept, blocked_ns, ioctl_ns \
             FROM driver_events"
        ),
        ["+1000|700|ioctl nvidia-uvm|10|11|7|nvidia-uvm|0xc020462a|-11|slow|600|600"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT window_start_ns, pid, op, device, cgroup_id, cgroup, count, sum_ns, max_ns, errors FROM driver_stats"
        ),
        [
            "+0|10|ioctl nvidia-uvm|nvidia-uvm|7|/job|2|1400|900|1",
            "+1000000000|10|ioctl nvidia-uvm|nvidia-uvm|7|/job|1|100|100|1",
        ]
    );
    assert_eq!(lines(&reader, "SELECT op FROM events WHERE layer = 'driver'"), ["ioctl nvidia-uvm"]);
    assert_eq!(lines(&reader, "SELECT op FROM cuda_events"), ["cudaMalloc"]);
}
