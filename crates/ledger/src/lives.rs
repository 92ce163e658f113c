//! The processes the ledger follows. A number is used again after a process ends, and a process that executes
//! another program starts anew, so records are sorted to lives by their time.

use crate::process::Process;
use crate::table::Table;
use gpuwhy_model::{Facts, Holder, LaunchCount};
use std::cmp::Reverse;

/// Far more than have a GPU open at once; those that ended are forgotten anyway.
const MAX_PROCESSES: usize = 4_096;
/// Ended ones kept for a few batches.
const MAX_CLOSED: usize = 1_024;
/// Ends remembered, to know late records for what they are.
const MAX_ENDS: usize = 16_384;
/// Records of a process come at most so many batches after its end, and its last counts so long after it: the kernel's
/// tables are read when a window is over.
const LATE_BATCHES: u32 = 2;
const LATE_NS: u64 = 3_000_000_000;
/// Call sites named when there is no memory.
const MAX_HOLDERS: usize = 10;

#[derive(Debug)]
pub(crate) struct Lives {
    open: Table<u32, Process>,
    /// Ended lately, the oldest end first.
    closed: Vec<Closed>,
    /// When a process of that number last ended.
    ends: Table<u32, u64>,
}

#[derive(Debug)]
struct Closed {
    pid: u32,
    ended_ns: u64,
    process: Process,
    batches: u32,
}

impl Lives {
    pub(crate) fn new() -> Self {
        Lives { open: Table::new(MAX_PROCESSES), closed: Vec::new(), ends: Table::new(MAX_ENDS) }
    }

    /// The process that made a call then; none where it ended too long ago.
    pub(crate) fn at(&mut self, pid: u32, start_ns: u64) -> Option<&mut Process> {
        let closed = |closed: &Closed| closed.pid == pid && closed.ended_ns >= start_ns;
        if let Some(at) = self.closed.iter().position(closed) {
            return Some(&mut self.closed[at].process);
        }
        (!self.had_ended(pid, start_ns)).then(|| self.now(pid))
    }

    /// Whether the process that began something then has ended since.
    pub(crate) fn had_ended(&self, pid: u32, start_ns: u64) -> bool {
        self.ended_ns(pid, start_ns).is_some()
    }

    pub(crate) fn ended_ns(&self, pid: u32, start_ns: u64) -> Option<u64> {
        self.ends.get(&pid).copied().filter(|ended_ns| *ended_ns >= start_ns)
    }

    /// The process that a count is of. Counts are read after the fact, so their time does not tell.
    pub(crate) fn counted(&mut self, count: &LaunchCount) -> &mut Process {
        let of_pid = |closed: &Closed| closed.pid == count.pid;
        let open = self.open.get(&count.pid);
        let closed = match open {
            Some(process) if process.knows(count) => None,
            Some(_) => self.closed.iter().rposition(|closed| of_pid(closed) && closed.process.knows(count)),
            None => self.closed.iter().rposition(of_pid),
        };
        match closed {
            Some(at) => &mut self.closed[at].process,
            None => self.now(count.pid),
        }
    }

    /// The process of that number as it is, for what others found out about it.
    pub(crate) fn latest(&mut self, pid: u32) -> Option<&mut Process> {
        if self.open.contains(&pid) || !self.ends.contains(&pid) {
            return Some(self.now(pid));
        }
        self.closed.iter_mut().rev().find(|closed| closed.pid == pid).map(|closed| &mut closed.process)
    }

    pub(crate) fn running(&self, pid: u32) -> Option<&Process> {
        self.open.get(&pid)
    }

    /// The process ended, or became another program.
    pub(crate) fn end(&mut self, pid: u32, at_ns: u64) {
        let latest_ns = self.ends.get(&pid).copied().unwrap_or(0);
        self.ends.insert(pid, at_ns.max(latest_ns));
        // Of a short one, all records may come after its end.
        let process = self.open.remove(&pid).unwrap_or_else(|| Process::new(pid));
        if self.closed.len() == MAX_CLOSED {
            self.closed.remove(0);
        }
        self.closed.push(Closed { pid, ended_ns: at_ns, process, batches: 0 });
        self.closed.sort_by_key(|closed| closed.ended_ns);
    }

    /// A batch is over: all say what has changed, and what ended is dropped when nothing more can come.
    pub(crate) fn emit(&mut self, facts: &mut Facts, newest_ns: u64) {
        for closed in &mut self.closed {
            closed.process.close(closed.ended_ns);
            closed.process.emit(facts, newest_ns);
            closed.batches += 1;
        }
        self.closed.retain(|closed| {
            closed.batches <= LATE_BATCHES || newest_ns < closed.ended_ns.saturating_add(LATE_NS)
        });
        let pids: Vec<u32> = self.open.keys().copied().collect();
        for pid in pids {
            if let Some(process) = self.open.get_mut(&pid) {
                process.emit(facts, newest_ns);
            }
        }
    }

    /// Functions launched without a name, each once.
    pub(crate) fn take_unnamed(&mut self) -> Vec<(u32, u64)> {
        let mut unnamed = Vec::new();
        let mut ask = |pid: u32, process: &mut Process| {
            unnamed.extend(process.kernels.take_unnamed().into_iter().map(|handle| (pid, handle)));
        };
        for closed in &mut self.closed {
            ask(closed.pid, &mut closed.process);
        }
        let pids: Vec<u32> = self.open.keys().copied().collect();
        for pid in pids {
            if let Some(process) = self.open.get_mut(&pid) {
                ask(pid, process);
            }
        }
        unnamed
    }

    /// Live device and managed memory of all processes, and the call sites that hold most of it.
    pub(crate) fn holders(&self) -> (u64, Vec<Holder>) {
        let sites = self.open.iter().flat_map(|(pid, process)| {
            process.memory.sites().map(|(stack_id, held)| Holder {
                pid: *pid,
                stack_id,
                bytes: held.bytes,
                count: held.count,
            })
        });
        let mut holders: Vec<Holder> = sites.collect();
        let live_bytes = holders.iter().fold(0, |sum: u64, holder| sum.saturating_add(holder.bytes));
        holders.sort_by_key(|holder| (Reverse(holder.bytes), holder.pid, holder.stack_id));
        holders.truncate(MAX_HOLDERS);
        (live_bytes, holders)
    }

    fn now(&mut self, pid: u32) -> &mut Process {
        self.open.get_or_insert_with(pid, || Process::new(pid))
    }
}
