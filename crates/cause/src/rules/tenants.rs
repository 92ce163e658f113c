//! A tenant whose processes take the CPU from the GPU's processes of others.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, seconds};
use crate::severity::{matters, percent};
use gpuwhy_model::advice::plain;
use gpuwhy_model::{Cause, Severity};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    name: "tenants",
    about: "all the CPU time that one tenant's processes took from traced processes of others, in calls and between them",
    causes: &[Cause::CpuPreempted],
    threshold: "1% of the time of the processes it was taken from, from two processes at least: one alone is named in its own \
                finding. Low: each process's own finding says what it costs",
    refuted_by: "`SELECT tenant, sum(ns) FROM noise GROUP BY 1` with others in front",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    let tenants: BTreeMap<u32, &str> = case
        .evidence
        .neighbours
        .iter()
        .filter(|other| !other.tenant.is_empty())
        .map(|other| (other.pid, other.tenant.as_str()))
        .collect();
    let mut taken: BTreeMap<&str, (Attribution, BTreeSet<u32>, BTreeSet<u32>)> = BTreeMap::new();
    for row in case.evidence.attribution.iter().filter(|row| row.cause == Cause::CpuPreempted) {
        let Some(tenant) = tenants.get(&row.by_pid) else { continue };
        if case.process(row.pid).is_some_and(|process| process.tenant == *tenant) {
            continue;
        }
        let (attribution, by, from) = taken.entry(tenant).or_default();
        attribution.add(Cause::CpuPreempted, row.ns);
        let share = Share { comm: (*tenant).into(), ns: row.ns, count: row.count, ..Share::default() };
        attribution.blame(Cause::CpuPreempted, Who::Named((*tenant).into()), share);
        by.insert(row.by_pid);
        from.insert(row.pid);
    }
    let mut drafts = Vec::new();
    for (tenant, (mut attribution, by, from)) in taken {
        let walls: u64 = from.iter().map(|pid| case.wall(*pid).ns()).sum();
        let ns = attribution.total_ns();
        if from.len() < 2 || !matters(ns, walls) {
            continue;
        }
        attribution.note(
            Cause::CpuPreempted,
            format!(
                "{} processes of {tenant} took {} from {} traced ones",
                by.len(),
                seconds(ns),
                from.len()
            ),
        );
        drafts.push(Draft {
            severity: Some(Severity::Low),
            title: format!(
                "{tenant} is a noisy neighbour: it took {:.0}% of the time of {} traced processes",
                percent(ns, walls),
                from.len()
            ),
            fixes: vec![format!("give {} CPUs of its own (cpuset), or a lower cpu.weight", plain(tenant))],
            sql: "SELECT tenant, by_comm, sum(ns) / 1e6 AS ms FROM noise GROUP BY 1, 2 ORDER BY ms DESC"
                .into(),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}
