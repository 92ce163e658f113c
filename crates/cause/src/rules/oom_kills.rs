//! Processes the kernel killed because the host's memory had run out.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::Draft;
use crate::fixes::see_limit;
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "oom_kills",
    about: "traced processes that were killed for memory, and who had asked for it",
    causes: &[Cause::MemOom],
    threshold: "one kill: its work is lost",
    refuted_by: "the kernel's log without an out-of-memory kill of that process",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut kills: Vec<_> = case.evidence.kills.iter().collect();
    kills.sort_by_key(|kill| (kill.time_ns, kill.pid));
    kills
        .into_iter()
        .map(|kill| {
            let mut attribution = Attribution::default();
            attribution.add(Cause::MemOom, 1);
            let cgroup = case.cgroup(kill.cgroup_id);
            let of = cgroup.as_ref().map_or_else(String::new, |cgroup| format!(" of cgroup {cgroup}"));
            attribution.note(Cause::MemOom, format!("{}[{}] had asked for memory{of}", kill.by_comm, kill.by_pid));
            let share = Share {
                comm: kill.by_comm.clone(),
                pid: Some(kill.by_pid).filter(|pid| *pid != 0),
                cgroup_id: kill.cgroup_id,
                ns: 1,
                count: 1,
                ..Share::default()
            };
            attribution.blame(Cause::MemOom, Who::Process(kill.by_pid), share);
            let limit = cgroup.as_ref().and_then(|cgroup| see_limit(cgroup, "the limit", &["memory.max"]));
            Draft {
                severity: Some(Severity::Critical),
                title: format!("the kernel killed {} because memory had run out", case.name(kill.pid)),
                pid: Some(kill.pid),
                fixes: limit
                    .into_iter()
                    .chain(["raise the limit, or use less: fewer data loader workers, smaller prefetch, less pinned memory".into()])
                    .collect(),
                sql: "SELECT * FROM mem_events WHERE event = 'oom_kill'".into(),
                attribution,
                ..Draft::default()
            }
        })
        .collect()
}
