//! The evidence in order: ledgers of operations, the path of each process, and who is who. Rules read it.

use crate::evidence::{Arrival, AttributedTime, ColdCall, Evidence};
use crate::op_ledger::OpLedger;
use crate::path::{ProcessPath, paths};
use gpuwhy_model::{Cause, Family, Layer, OpInfo, Process, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Sums are kept by windows of this length.
const WINDOW_NS: u64 = 500_000_000;

#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) evidence: &'a Evidence,
    /// In the order of process and operation.
    pub(crate) ops: Vec<OpLedger<'a>>,
    pub(crate) paths: Vec<ProcessPath>,
    /// When each process used the GPU.
    walls: BTreeMap<u32, Span>,
    processes: BTreeMap<u32, &'a Process>,
    cgroups: BTreeMap<u64, String>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(evidence: &'a Evidence) -> Case<'a> {
        let mut by_op: BTreeMap<(u32, &str), Vec<&AttributedTime>> = BTreeMap::new();
        for row in &evidence.attribution {
            if let Some(op) = &row.op {
                by_op.entry((row.pid, op)).or_default().push(row);
            }
        }
        let mut cold: BTreeMap<(u32, &str), Vec<&ColdCall>> = BTreeMap::new();
        for call in &evidence.cold_calls {
            cold.entry((call.pid, &call.op)).or_default().push(call);
        }
        // Everybody who asks the driver something is in its tables; only who uses a library drives a GPU.
        let is_library = |op: &str| evidence.ops.get(op).is_none_or(|op| op.layer != Layer::Driver);
        let mut walls: BTreeMap<u32, Span> = BTreeMap::new();
        for sums in evidence.sums.iter().filter(|sums| is_library(&sums.op)) {
            let wall = walls.entry(sums.pid).or_insert(Span { start_ns: u64::MAX, end_ns: 0 });
            wall.start_ns = wall.start_ns.min(sums.first_ns);
            wall.end_ns = wall.end_ns.max(sums.last_ns);
        }
        // A call that has not returned is in no sum yet, but its waits are billed.
        for row in evidence.attribution.iter().filter(|row| row.op.as_deref().is_some_and(is_library)) {
            if let Some(wall) = walls.get_mut(&row.pid) {
                wall.end_ns = wall.end_ns.max(row.last_ns + WINDOW_NS);
            }
        }
        for process in &evidence.processes {
            if let Some(wall) = walls.get_mut(&process.pid) {
                *wall = within(*wall, process);
            }
        }
        // Windows reach into the loop, and a start has time before the first call.
        for (pid, start) in &evidence.starts {
            walls.entry(*pid).and_modify(|wall| *wall = *start);
        }
        let mut ops: Vec<OpLedger<'a>> = evidence
            .sums
            .iter()
            .filter(|sums| sums.count > 0)
            .filter_map(|sums| {
                let key = (sums.pid, sums.op.as_str());
                let info = evidence.ops.get(&sums.op)?;
                let rows = by_op.get(&key).map_or(&[][..], Vec::as_slice);
                Some(OpLedger::new(sums, info, rows, cold.get(&key).map_or(&[][..], Vec::as_slice)))
            })
            .collect();
        ops.sort_by(|a, b| (a.sums.pid, &a.sums.op).cmp(&(b.sums.pid, &b.sums.op)));
        let mut case = Case {
            evidence,
            ops,
            paths: paths(evidence),
            walls,
            processes: evidence.processes.iter().map(|process| (process.pid, process)).collect(),
            cgroups: cgroups(evidence),
        };
        case.attribute_driver_contention();
        case
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&'a Process> {
        self.processes.get(&pid).copied()
    }

    /// As `python[4242]`.
    pub(crate) fn name(&self, pid: u32) -> String {
        let comm = self.process(pid).map(|process| process.comm.as_str());
        // Of a child that ran a command its threads have the newer name.
        let main = || self.evidence.activity.threads.get(&pid).filter(|thread| thread.pid == pid);
        let comm = comm.or_else(|| main().map(|thread| thread.comm.as_str()).filter(|comm| !comm.is_empty()));
        let comm = comm.or_else(|| {
            self.evidence.neighbours.iter().find(|other| other.pid == pid).map(|other| other.comm.as_str())
        });
        format!("{}[{pid}]", comm.filter(|comm| !comm.is_empty()).unwrap_or("process"))
    }

    /// The process of a thread; of one that is not known its own number.
    pub(crate) fn pid_of(&self, tid: u32) -> u32 {
        self.evidence.activity.threads.get(&tid).map_or(tid, |thread| thread.pid)
    }

    /// Its name alone; empty where it is not known.
    pub(crate) fn comm(&self, pid: u32) -> String {
        self.process(pid).map(|process| process.comm.clone()).unwrap_or_default()
    }

    /// Who arrived at each collective, by communicator and number.
    pub(crate) fn rounds(&self) -> BTreeMap<&'a str, BTreeMap<u64, Vec<&'a Arrival>>> {
        let mut comms: BTreeMap<&str, BTreeMap<u64, Vec<&Arrival>>> = BTreeMap::new();
        for arrival in &self.evidence.collectives {
            comms.entry(&arrival.comm).or_default().entry(arrival.seq).or_default().push(arrival);
        }
        comms
    }

    /// How long a process's streams were followed, and busy at least and at most of that.
    pub(crate) fn streams(&self, pid: u32) -> (u64, u64, u64) {
        let times = self.evidence.gpu_times.iter().filter(|time| time.pid == pid);
        times.fold((0, 0, 0), |(window, lower, upper), time| {
            let within = |ns: u64| ns.min(time.window_ns);
            (window + time.window_ns, lower + within(time.busy_lower_ns), upper + within(time.busy_upper_ns))
        })
    }

    pub(crate) fn wall(&self, pid: u32) -> Span {
        self.walls.get(&pid).copied().unwrap_or(self.evidence.span)
    }

    /// Processes with calls, in their order.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.walls.keys().copied()
    }

    pub(crate) fn cgroup(&self, id: u64) -> Option<String> {
        self.cgroups.get(&id).cloned()
    }

    pub(crate) fn ops_of(&self, pid: u32) -> impl Iterator<Item = &OpLedger<'a>> {
        self.ops.iter().filter(move |op| op.sums.pid == pid)
    }

    /// The operation of a family that took a process the most time.
    pub(crate) fn main_op(&self, pid: u32, family: Family) -> Option<&OpLedger<'a>> {
        self.ops_of(pid)
            .filter(|op| op.info.family == family)
            .max_by_key(|op| (op.sums.sum_ns, std::cmp::Reverse(op.sums.op.as_str())))
    }

    /// Who waits in the driver for somebody else who is in it waits for him.
    fn attribute_driver_contention(&mut self) {
        let users: BTreeSet<u32> = self.evidence.driver_users.iter().copied().collect();
        if users.is_empty() {
            return;
        }
        let in_driver = |row: &&AttributedTime| {
            row.by_pid != row.pid
                && users.contains(&row.by_pid)
                && matches!(row.cause, Cause::Unknown | Cause::GpuAlloc | Cause::GpuWait)
        };
        for row in self.evidence.attribution.iter().filter(in_driver) {
            let Some(op) = &row.op else { continue };
            let found =
                self.ops.iter_mut().find(|ledger| ledger.sums.pid == row.pid && ledger.sums.op == *op);
            if let Some(ledger) = found {
                let ns = ledger.excess.take(row.cause, row.ns);
                ledger.excess.add_attributed(Cause::DriverContention, &AttributedTime { ns, ..row.clone() });
            }
        }
    }

    pub(crate) fn info(&self, op: &str) -> Option<&'a OpInfo> {
        self.evidence.ops.get(op)
    }
}

/// Windows begin before a process does, and end after it.
fn within(span: Span, process: &Process) -> Span {
    let start_ns = span.start_ns.max(process.start_ns.min(span.end_ns));
    let end_ns = process.end_ns.map_or(span.end_ns, |end| span.end_ns.min(end.max(start_ns)));
    Span { start_ns, end_ns }
}

fn cgroups(evidence: &Evidence) -> BTreeMap<u64, String> {
    let traced = evidence.processes.iter().map(|process| (process.cgroup_id, &process.cgroup));
    let others = evidence.neighbours.iter().map(|other| (other.cgroup_id, &other.cgroup));
    traced
        .chain(others)
        .filter(|(id, path)| *id != 0 && !path.is_empty())
        .map(|(id, path)| (id, path.clone()))
        .collect()
}
/// Threads of the kernel that deliver packets for everybody.
pub(crate) fn is_kernel_thread(comm: &str) -> bool {
    ["ksoftirqd/", "irq/", "napi/", "kworker/"].iter().any(|name| comm.starts_with(name))
}
