//! The rows of the `blame` table: time of each operation on each thread, billed to causes. Together they are all of
//! the time spent in calls: what was on the CPU from the call sums, what was not from the waits.

use gpuwhy_model::{BlameRow, CallWindow, Cause, OpId, OpInfo, Part, Wait};

/// Bills a batch.
pub fn blame_rows(windows: &[CallWindow], waits: &[Wait], ops: &[OpInfo]) -> Vec<BlameRow> {
    let info = |id: OpId| ops.iter().find(|op| op.id == id);
    let on_cpu = windows.iter().filter(|window| window.blame.oncpu_ns > 0).map(|window| BlameRow {
        window_start_ns: window.window_start_ns,
        pid: window.pid,
        tid: window.tid,
        op: window.op,
        cause: Cause::of_part(info(window.op), Part::OnCpu, 0),
        by_pid: 0,
        by_tid: 0,
        by_comm: String::new(),
        by_cgroup_id: 0,
        ns: window.blame.oncpu_ns,
        count: window.count,
    });
    let waited = waits.iter().map(|wait| BlameRow {
        window_start_ns: wait.window_start_ns,
        pid: wait.pid,
        tid: wait.tid,
        op: wait.op,
        cause: Cause::of_part(info(wait.op), wait.part, wait.by_pid),
        by_pid: wait.by_pid,
        by_tid: wait.by_tid,
        by_comm: wait.by_comm.clone(),
        by_cgroup_id: wait.by_cgroup_id,
        ns: wait.ns,
        count: wait.count,
    });
    on_cpu.chain(waited).collect()
}
