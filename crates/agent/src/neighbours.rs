//! Processes that were behind waits of traced ones, or are followed for theirs: whose they are, looked up once each while they
//! live.

use gpuwhy_host::{Cgroup, Lookup, Root};
use gpuwhy_model::{Batch, Neighbour, Process};
use std::collections::{HashMap, HashSet};

/// Those remembered as told; beyond it all are forgotten, and told again when they are met again.
const MAX_KNOWN: usize = 16_384;
/// Looked up in one batch: a busy host has many, and each costs a few files.
const MAX_AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: HashSet<(u32, String)>,
    lookup: Lookup,
}

impl Neighbours {
    pub(crate) fn take(&mut self, batch: &mut Batch, traced: &HashMap<u32, Process>, now_ns: u64) {
        let mut seen = 0;
        let behind = batch.waits.iter().filter(|wait| wait.by_pid != wait.pid);
        let behind = behind.map(|wait| (wait.by_pid, wait.by_comm.clone(), wait.by_cgroup_id));
        let waiting = batch.wait_events.iter().filter(|wait| !traced.contains_key(&wait.pid));
        let waiting: HashMap<u32, u64> = waiting.map(|wait| (wait.pid, wait.cgroup_id)).collect();
        let waiting =
            waiting.into_iter().filter_map(|(pid, cgroup_id)| Some((pid, comm_of(pid)?, cgroup_id)));
        for (pid, comm, cgroup_id) in behind.chain(waiting) {
            if pid == 0 || traced.contains_key(&pid) {
                continue;
            }
            let key = (pid, comm.clone());
            if seen == MAX_AT_ONCE || self.known.contains(&key) {
                continue;
            }
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(key);
            seen += 1;
            let cgroup = Cgroup::of(&Root::default(), pid).path;
            batch.neighbours.push(Neighbour {
                pid,
                comm,
                cgroup_id,
                tenant: if cgroup.is_empty() { String::new() } else { self.lookup.tenant_of_cgroup(&cgroup) },
                cgroup,
                first_seen_ns: now_ns,
            });
        }
    }
}

fn comm_of(pid: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_string())
}
