//! The traced processes: described when they are first seen, named when their names are found, completed when they end.

use crate::owners::Owners;
use crate::ranks::Ranks;
use gpuwhy_model::{Batch, Process, ProcessEvent, ProcessEventKind};
use std::collections::{HashMap, HashSet};

/// Processes remembered that have mapped a GPU library and made no call yet; beyond it all are forgotten.
/// A process that has ended is there until its parent has its status, which takes a moment.
const LOOKS_AFTER_LOSS: u32 = 50;
/// No process ends with it.
const UNKNOWN_STATUS: i32 = -1;
const MAX_SEEN: usize = 1024;
/// Dead processes remembered for the screen; all of them are in the file.
const MAX_DEAD: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Census {
    processes: HashMap<u32, Process>,
    /// Those that may be gone when their first call is told of, as they were when they mapped a GPU library.
    described: HashMap<u32, Process>,
    ranks: HashMap<u32, Ranks>,
    owners: Owners,
    dead: usize,
    forgotten: usize,
    /// The newest time of lost records that may have been ends of processes.
    lost_ns: u64,
    /// Batches after which such ends are still looked for.
    looks_left: u32,
}

impl Census {
    /// A process maps a GPU library: it may make its calls and end before they are read.
    pub(crate) fn see(&mut self, pid: u32) {
        let is_known = self.processes.get(&pid).is_some_and(|process| process.end_ns.is_none());
        if is_known || self.described.contains_key(&pid) {
            return;
        }
        if self.described.len() >= MAX_SEEN {
            self.described.clear();
        }
        self.described.extend(gpuwhy_host::describe(pid).map(|process| (pid, process)));
    }

    /// Adds to the batch what its events tell of processes; tells which ended ones are forgotten from now on.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> Vec<u32> {
        let answers = self.owners.answers();
        let mut changed = self.name(answers);
        batch.process_events.sort_by_key(|event| event.time_ns);
        for event in &batch.process_events {
            match event.kind {
                // It is followed for its waits: no process of the trace until it makes a call.
                ProcessEventKind::Exec if event.waits_only => {}
                ProcessEventKind::Seen | ProcessEventKind::Exec => {
                    // An exec makes it another program, but the same process.
                    let start =
                        self.processes.get(&event.pid).filter(|p| p.end_ns.is_none()).map(|p| p.start_ns);
                    if start.is_none() || event.kind == ProcessEventKind::Exec {
                        let described = self.described.remove(&event.pid);
                        let described = described.filter(|_| event.kind == ProcessEventKind::Seen);
                        let mut process = describe(event.pid, described, &event.comm, event.time_ns);
                        process.cgroup_id = event.cgroup_id;
                        process.start_ns = start.unwrap_or(process.start_ns);
                        self.owners.ask(&process);
                        self.ranks.insert(event.pid, Ranks::of(&process));
                        self.processes.insert(event.pid, process);
                        changed.insert(event.pid);
                    }
                }
                ProcessEventKind::Exit => {
                    self.described.remove(&event.pid);
                    if let Some(process) = self.processes.get_mut(&event.pid) {
                        self.dead += usize::from(process.end_ns.is_none());
                        process.end_ns = Some(event.time_ns);
                        process.exit_code = Some(event.exit_code);
                        changed.insert(event.pid);
                    }
                }
                ProcessEventKind::Fork | ProcessEventKind::Thread | ProcessEventKind::ThreadExit => {}
            }
        }
        self.end_unseen(batch, &mut changed);
        batch.processes.extend(changed.iter().filter_map(|pid| self.processes.get(pid).cloned()));
        self.forget_the_dead()
    }

    /// The end of a process may be among records that were lost: then /proc says who is gone. When exactly it ended, and with which
    /// status, is not known.
    fn end_unseen(&mut self, batch: &mut Batch, changed: &mut HashSet<u32>) {
        if let Some(loss) =
            batch.losses.iter().filter(|loss| loss.probe == "process").max_by_key(|loss| loss.end_ns)
        {
            self.lost_ns = self.lost_ns.max(loss.end_ns);
            self.looks_left = LOOKS_AFTER_LOSS;
        }
        if self.looks_left == 0 {
            return;
        }
        self.looks_left -= 1;
        for process in self.processes.values_mut() {
            if process.end_ns.is_none() && !gpuwhy_host::runs(process.pid) {
                let time_ns = self.lost_ns.max(process.start_ns);
                process.end_ns = Some(time_ns);
                self.dead += 1;
                changed.insert(process.pid);
                // Others close what they hold of it when they read of its end.
                batch.process_events.push(ProcessEvent {
                    time_ns,
                    kind: ProcessEventKind::Exit,
                    pid: process.pid,
                    tid: process.pid,
                    child: 0,
                    exit_code: UNKNOWN_STATUS,
                    cgroup_id: process.cgroup_id,
                    comm: process.comm.clone(),
                    waits_only: false,
                });
            }
        }
    }

    pub(crate) fn by_pid(&self) -> &HashMap<u32, Process> {
        &self.processes
    }

    /// Adds to the batch the processes whose rank its collectives tell, once those are complete.
    pub(crate) fn take_ranks(&mut self, batch: &mut Batch) {
        let calls = batch.nccl_calls.iter().filter(|call| call.communicator != 0);
        let calls = calls.map(|call| (call.call.pid, call.rank, call.nranks));
        let in_flight = batch.in_flight.iter().flatten().map(|call| (call.pid, call.rank, call.nranks));
        let mut changed: HashSet<u32> = HashSet::new();
        for (pid, rank, nranks) in calls.chain(in_flight) {
            if let (Some(rank), Some(nranks), Some(ranks)) = (rank, nranks, self.ranks.get_mut(&pid))
                && ranks.take(rank, nranks)
            {
                changed.insert(pid);
            }
        }
        for pid in changed {
            if let (Some(process), Some(ranks)) = (self.processes.get_mut(&pid), self.ranks.get(&pid)) {
                ranks.put(process);
                batch.processes.retain(|other| (other.pid, other.start_ns) != (pid, process.start_ns));
                batch.processes.push(process.clone());
            }
        }
    }

    /// The processes whose names were still being looked for, as far as they are found now.
    pub(crate) fn settle(&mut self) -> Vec<Process> {
        let answers = self.owners.last_answers();
        let changed = self.name(answers);
        changed.iter().filter_map(|pid| self.processes.get(pid).cloned()).collect()
    }

    /// Takes over the names that were found; tells whose.
    fn name(&mut self, answers: Vec<Process>) -> HashSet<u32> {
        let mut changed = HashSet::new();
        for found in answers {
            // Its number may have been given to another meanwhile.
            let same = |process: &&mut Process| process.start_ns == found.start_ns;
            let Some(process) = self.processes.get_mut(&found.pid).filter(same) else { continue };
            process.container = found.container;
            (process.pod, process.namespace) = (found.pod, found.namespace);
            (process.job_system, process.job_id) = (found.job_system, found.job_id);
            (process.job_step, process.job_name) = (found.job_step, found.job_name);
            (process.job_user, process.job_queue) = (found.job_user, found.job_queue);
            process.tenant = found.tenant;
            changed.insert(found.pid);
        }
        changed
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        self.processes.values().cloned().collect()
    }

    /// How many processes were seen, the forgotten ones included.
    pub(crate) fn count(&self) -> usize {
        self.processes.len() + self.forgotten
    }

    fn forget_the_dead(&mut self) -> Vec<u32> {
        if self.dead <= MAX_DEAD {
            return Vec::new();
        }
        let dead: Vec<u32> = self
            .processes
            .values()
            .filter(|process| process.end_ns.is_some())
            .map(|process| process.pid)
            .collect();
        self.processes.retain(|_, process| process.end_ns.is_none());
        self.ranks.retain(|pid, _| self.processes.contains_key(pid));
        self.forgotten += dead.len();
        self.dead = 0;
        dead
    }
}

/// A process that is already gone is known by how it was met, else by what its event said.
fn describe(pid: u32, described: Option<Process>, comm: &str, time_ns: u64) -> Process {
    gpuwhy_host::describe(pid).or(described).unwrap_or_else(|| Process {
        pid,
        start_ns: time_ns,
        comm: comm.to_string(),
        ..Process::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Call, NcclCall};

    fn event(kind: ProcessEventKind, pid: u32, time_ns: u64) -> ProcessEvent {
        ProcessEvent {
            time_ns,
            kind,
            pid,
            tid: pid,
            child: 0,
            exit_code: 0,
            cgroup_id: 5,
            comm: "x".into(),
            waits_only: false,
        }
    }

    #[test]
    fn a_process_whose_end_was_lost_has_ended() {
        let mut census = Census::default();
        let gone = {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        let own = std::process::id();
        let seen = |pid| event(ProcessEventKind::Seen, pid, 5);
        let mut batch = Batch { process_events: vec![seen(gone), seen(own)], ..Batch::default() };
        census.take(&mut batch);
        assert!(census.by_pid()[&gone].end_ns.is_none(), "nothing was lost: its end is on its way");
        let loss = |probe: &str| gpuwhy_model::Loss {
            start_ns: 6,
            end_ns: 90,
            probe: probe.into(),
            cpu: 0,
            reason: "ring full".into(),
            count: 3,
        };
        census.take(&mut Batch { losses: vec![loss("cuda")], ..Batch::default() });
        assert!(census.by_pid()[&gone].end_ns.is_none(), "ends are records of another probe");
        let mut batch = Batch { losses: vec![loss("process")], ..Batch::default() };
        census.take(&mut batch);
        assert_eq!(batch.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [gone]);
        assert_eq!((batch.processes[0].end_ns, batch.processes[0].exit_code), (Some(90), None));
        let ends: Vec<_> = batch.process_events.iter().map(|event| (event.kind, event.pid)).collect();
        assert_eq!(ends, [(ProcessEventKind::Exit, gone)], "others close what they hold of it");
        assert!(census.by_pid()[&own].end_ns.is_none());
    }

    fn call(pid: u32, rank: i32, nranks: i32) -> NcclCall {
        NcclCall {
            call: Call { pid, ..Call::default() },
            communicator: 1,
            comm_id_hash: None,
            rank: Some(rank),
            nranks: Some(nranks),
            seq: None,
            count: None,
            datatype: None,
            reduce_op: None,
            peer: None,
            grouped: false,
            stream_slot: 0,
            mark: 0,
        }
    }

    #[test]
    fn a_process_gets_the_rank_of_its_communicator() {
        // A number that no process has: it is known by its event alone.
        const PID: u32 = u32::MAX;
        let mut census = Census::default();
        let mut batch = Batch {
            process_events: vec![event(ProcessEventKind::Seen, PID, 10)],
            nccl_calls: vec![call(PID, 3, 8), call(PID, 1, 2), call(7, 0, 2)],
            ..Batch::default()
        };
        census.take(&mut batch);
        census.take_ranks(&mut batch);
        let [process] = batch.processes.as_slice() else { panic!("{:?}", batch.processes) };
        assert_eq!((process.pid, process.rank, process.world_size), (PID, Some(3), Some(8)));
        assert_eq!(process.rank_source.as_deref(), Some("communicator"));
        // The same again is no news.
        let mut batch = Batch { nccl_calls: vec![call(PID, 3, 8)], ..Batch::default() };
        census.take(&mut batch);
        census.take_ranks(&mut batch);
        assert!(batch.processes.is_empty());
        // Another program in the same process starts anew.
        let mut batch =
            Batch { process_events: vec![event(ProcessEventKind::Exec, PID, 20)], ..Batch::default() };
        census.take(&mut batch);
        assert_eq!((batch.processes[0].rank, batch.processes[0].start_ns), (None, 10));
    }

    #[test]
    fn a_process_that_is_gone_is_known_as_it_was_when_it_mapped_a_library() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        // The kernel lets the parent go on before the new program has its arguments.
        while gpuwhy_host::describe(pid).is_none_or(|process| process.cmdline.is_empty()) {
            std::thread::yield_now();
        }
        let mut census = Census::default();
        census.see(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        let mut batch =
            Batch { process_events: vec![event(ProcessEventKind::Seen, pid, 10)], ..Batch::default() };
        census.take(&mut batch);
        assert_ne!(batch.processes[0].cmdline, "");
        assert!(census.described.is_empty());
    }

    #[test]
    fn a_process_followed_for_its_waits_is_none_of_the_trace_until_it_makes_a_call() {
        const PID: u32 = u32::MAX;
        let mut census = Census::default();
        let mut take = |kind, waits_only| {
            let event = ProcessEvent { waits_only, ..event(kind, PID, 10) };
            let mut batch = Batch { process_events: vec![event], ..Batch::default() };
            census.take(&mut batch);
            (batch.processes.len(), census.count())
        };
        assert_eq!(take(ProcessEventKind::Exec, true), (0, 0));
        assert_eq!(take(ProcessEventKind::Seen, false), (1, 1));
    }

    #[test]
    fn names_of_a_number_that_was_used_again_are_not_taken() {
        const PID: u32 = u32::MAX;
        let mut census = Census::default();
        let mut batch =
            Batch { process_events: vec![event(ProcessEventKind::Seen, PID, 10)], ..Batch::default() };
        census.take(&mut batch);
        let found = |start_ns| Process { pid: PID, start_ns, tenant: "n/p".into(), ..Process::default() };
        assert!(census.name(vec![found(9)]).is_empty());
        assert_eq!(census.processes()[0].tenant, "");
        assert_eq!(census.name(vec![found(10)]), HashSet::from([PID]));
        assert_eq!(census.processes()[0].tenant, "n/p");
    }
}
