//! Processes that were behind waits of traced ones: whose they are, looked up once each while they live.

use gpuwhy_host::{Cgroup, Lookup, Root};
use gpuwhy_model::{Batch, Neighbour, Process};
use std::collections::{HashMap, HashSet};

/// Those remembered as told; beyond it all are forgotten, and told again when they are met again.
const MOST_KNOWN: usize = 16_384;
/// Looked up in one batch: a busy host has many, and each costs a few files.
const MOST_AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: HashSet<(u32, String)>,
    lookup: Lookup,
}

impl Neighbours {
    pub(crate) fn take(&mut self, batch: &mut Batch, traced: &HashMap<u32, Process>, now_ns: u64) {
        let mut met = 0;
        for wait in &batch.waits {
            if wait.by_pid == 0 || wait.by_pid == wait.pid || traced.contains_key(&wait.by_pid) {
                continue;
            }
            let key = (wait.by_pid, wait.by_comm.clone());
            if met == MOST_AT_ONCE || self.known.contains(&key) {
                continue;
            }
            if self.known.len() >= MOST_KNOWN {
                self.known.clear();
            }
            self.known.insert(key);
            met += 1;
            let cgroup = Cgroup::of(&Root::default(), wait.by_pid).path;
            batch.neighbours.push(Neighbour {
                pid: wait.by_pid,
                comm: wait.by_comm.clone(),
                cgroup_id: wait.by_cgroup_id,
                tenant: if cgroup.is_empty() { String::new() } else { self.lookup.tenant_of_cgroup(&cgroup) },
                cgroup,
                first_seen_ns: now_ns,
            });
        }
    }
}
