//! Threads that launch from another memory node than their GPU's, or whose memory lies on another.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::Draft;
use crate::evidence::ThreadHome;
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "numa",
    about: "launching threads on another memory node than their GPU's, or with most of their memory on another",
    causes: &[Cause::NumaRemote],
    threshold: "a launching thread last seen on another node than its GPU's, or 60% of the process's memory on another node than \
                the thread: copies and launches cross the sockets' link. Low: what it costs is not measured here",
    refuted_by: "the same run with `numactl --cpunodebind` being no faster",
    find,
};

const MAX_PCT: f64 = 60.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let launches = |home: &&ThreadHome| {
        case.evidence.activity.callers.get(&home.tid).is_some_and(|caller| caller.pid == home.pid)
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let mut homes: Vec<&ThreadHome> = case.evidence.places.iter().filter(launches).collect();
    homes.sort_by_key(|home| (home.pid, home.tid));
    for home in homes {
        let far_gpu = home.gpu_node.filter(|node| *node != home.node);
        let all: u64 = home.memory.iter().map(|(_, bytes)| bytes).sum();
        let far_memory = home
            .memory
            .iter()
            .filter(|(node, bytes)| *node != home.node && percent(*bytes, all) >= MAX_PCT)
            .max();
        if far_gpu.is_none() && far_memory.is_none() {
            continue;
        }
        if drafts.iter().any(|draft| draft.pid == Some(home.pid)) {
            continue;
        }
        let mut attribution = Attribution::default();
        attribution.add(Cause::NumaRemote, 1);
        if let Some(node) = far_gpu {
            attribution.note(
                Cause::NumaRemote,
                format!("thread {} runs on node {}, its GPU is at node {node}", home.tid, home.node),
            );
        }
        if let Some((node, bytes)) = far_memory {
            attribution.note(
                Cause::NumaRemote,
                format!(
                    "{:.0}% of its process's memory is on node {node}, the thread on node {}",
                    percent(*bytes, all),
                    home.node
                ),
            );
        }
        let target = far_gpu.unwrap_or(home.node);
        let comm = case.comm(home.pid);
        attribution.blame(
            Cause::NumaRemote,
            Who::Process(home.pid),
            Share { comm, pid: Some(home.pid), ns: 1, count: 1, ..Share::default() },
        );
        drafts.push(Draft {
            severity: Some(Severity::Low),
            title: format!(
                "{} launches from memory node {}, far from its GPU or its memory",
                case.name(home.pid),
                home.node
            ),
            pid: Some(home.pid),
            fixes: vec![
                format!("start it on node {target}: numactl --cpunodebind={target} --membind={target}"),
                format!(
                    "move it there now: `sudo taskset -acp $(cat /sys/devices/system/node/node{target}/cpulist) {}`",
                    home.pid
                ),
            ],
            sql: format!("SELECT tid, cpu, numa_node, node_migrations FROM threads WHERE pid = {}", home.pid),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}
