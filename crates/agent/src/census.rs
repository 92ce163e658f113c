//! The traced processes: described when they are first seen, completed when they end.

use gpuwhy_model::{Batch, Process, ProcessEventKind};
use std::collections::{HashMap, HashSet};

/// Dead processes remembered for the screen; all of them are in the file.
const MOST_DEAD: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Census {
    processes: HashMap<u32, Process>,
    dead: usize,
    forgotten: usize,
}

impl Census {
    /// Adds to the batch what its events tell of processes; tells which ended ones are forgotten from now on.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> Vec<u32> {
        let mut changed: HashSet<u32> = HashSet::new();
        batch.process_events.sort_by_key(|event| event.time_ns);
        for event in &batch.process_events {
            match event.kind {
                ProcessEventKind::Seen | ProcessEventKind::Exec => {
                    // An exec makes it another program, but the same process.
                    let start =
                        self.processes.get(&event.pid).filter(|p| p.end_ns.is_none()).map(|p| p.start_ns);
                    if start.is_none() || event.kind == ProcessEventKind::Exec {
                        let mut process = describe(event.pid, &event.comm, event.time_ns);
                        process.cgroup_id = event.cgroup_id;
                        process.start_ns = start.unwrap_or(process.start_ns);
                        self.processes.insert(event.pid, process);
                        changed.insert(event.pid);
                    }
                }
                ProcessEventKind::Exit => {
                    if let Some(process) = self.processes.get_mut(&event.pid) {
                        process.end_ns = Some(event.time_ns);
                        process.exit_code = Some(event.exit_code);
                        self.dead += 1;
                        changed.insert(event.pid);
                    }
                }
                ProcessEventKind::Fork | ProcessEventKind::Thread | ProcessEventKind::ThreadExit => {}
            }
        }
        batch.processes.extend(changed.iter().filter_map(|pid| self.processes.get(pid).cloned()));
        self.forget_the_dead()
    }

    pub(crate) fn by_pid(&self) -> &HashMap<u32, Process> {
        &self.processes
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        self.processes.values().cloned().collect()
    }

    /// How many processes were seen, the forgotten ones included.
    pub(crate) fn count(&self) -> usize {
        self.processes.len() + self.forgotten
    }

    fn forget_the_dead(&mut self) -> Vec<u32> {
        if self.dead <= MOST_DEAD {
            return Vec::new();
        }
        let dead: Vec<u32> = self
            .processes
            .values()
            .filter(|process| process.end_ns.is_some())
            .map(|process| process.pid)
            .collect();
        self.processes.retain(|_, process| process.end_ns.is_none());
        self.forgotten += dead.len();
        self.dead = 0;
        dead
    }
}

/// A process that is already gone is known by what its event said.
fn describe(pid: u32, comm: &str, time_ns: u64) -> Process {
    gpuwhy_host::describe(pid).unwrap_or_else(|| Process {
        pid,
        start_ns: time_ns,
        comm: comm.to_string(),
        ..Process::default()
    })
}
