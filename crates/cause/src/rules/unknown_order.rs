//! Collectives whose communicator was made unseen, or split from one that was: which of them belong together, and so who came last, is not known.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::Draft;
use crate::evidence::Unordered;
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "unknown_order",
    about: "collectives on communicators that were made before their library was attached, or split from such a one: they have no communicator id, so ranks cannot be compared",
    causes: &[Cause::Unknown],
    threshold: "one such collective of several ranks. Low: it says what cannot be told, not that anything is slow",
    refuted_by: "`SELECT count(*) FROM nccl_events WHERE comm_id_hash IS NULL` being 0 for collectives",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    // One rank has no order.
    let all: Vec<&Unordered> =
        case.evidence.unordered.iter().filter(|unordered| unordered.nranks != Some(1)).collect();
    let Some(first) = all.iter().min_by_key(|unordered| unordered.first_ns) else { return Vec::new() };
    let mut pids: Vec<u32> = all.iter().map(|unordered| unordered.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let calls: u64 = all.iter().map(|unordered| unordered.calls).sum();
    let late = case.evidence.coverage.degraded.iter().find(|line| is_late(line));
    let (why, fix) = match late {
        Some(line) => (
            format!("the collective library was attached late: {line}"),
            "trace the job again: the library is attached before it is mapped, as it is known now",
        ),
        None => (
            "they were made before the trace began".to_string(),
            "begin the trace before the job, or start the job again while it is traced",
        ),
    };
    let mut attribution = Attribution::default();
    attribution.add(Cause::Unknown, all.iter().map(|unordered| unordered.ns).sum::<u64>().max(1));
    attribution.note(Cause::Unknown, why);
    let of_ranks = ranks(&all);
    if !of_ranks.is_empty() {
        attribution.note(Cause::Unknown, of_ranks);
    }
    let who = match pids.as_slice() {
        [pid] => case.name(*pid),
        more => format!("{} and {} more", case.name(first.pid), more.len() - 1),
    };
    vec![Draft {
        severity: Some(Severity::Low),
        title: format!(
            "order of ranks unknown: {calls} collectives of {who} are on communicators that were made unseen, so a late rank would not be named"
        ),
        op: Some(first.op.clone()),
        pid: Some(first.pid),
        rank: first.rank,
        fixes: vec![fix.into()],
        sql: "SELECT pid, rank, nranks, op, count(*) FROM nccl_events WHERE comm_id_hash IS NULL GROUP BY 1, 2, 3, 4"
            .into(),
        attribution,
        ..Draft::default()
    }]
}

/// The sentence with which the agent says that calls before attaching were not seen.
fn is_late(line: &str) -> bool {
    line.starts_with("nccl ") && line.contains(" after process ")
}

/// What the library's own struct tells all the same.
fn ranks(all: &[&Unordered]) -> String {
    let mut ranks: Vec<i32> = all.iter().filter_map(|unordered| unordered.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let texts: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => String::new(),
        texts => format!("ranks that are known from the library itself: {}", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;

    fn unordered(pid: u32, rank: i32, nranks: Option<i32>) -> Unordered {
        Unordered {
            pid,
            op: "ncclAllReduce".into(),
            rank: Some(rank),
            nranks,
            calls: 100,
            ns: 5_000,
            first_ns: 1,
        }
    }

    fn drafts(evidence: &Evidence) -> Vec<Draft> {
        find(&Case::new(evidence))
    }

    #[test]
    fn communicators_made_unseen_are_one_finding_with_its_reason() {
        let mut evidence = Evidence {
            unordered: vec![unordered(7, 0, Some(2)), unordered(8, 1, Some(2))],
            ..Evidence::default()
        };
        let found = drafts(&evidence);
        assert_eq!(found.len(), 1);
        assert!(found[0].title.starts_with("order of ranks unknown: 200 collectives"), "{}", found[0].title);
        assert_eq!(found[0].severity, Some(Severity::Low));
        assert!(found[0].fixes[0].starts_with("begin the trace before the job"));
        let late = "nccl * /x/libnccl.so.2: attached 80ms after process 7 mapped it; calls it made before that were not seen";
        evidence.coverage.degraded.push(late.into());
        assert!(drafts(&evidence)[0].fixes[0].starts_with("trace the job again"));
    }

    #[test]
    fn a_single_rank_has_no_order() {
        let alone = Evidence { unordered: vec![unordered(7, 0, Some(1))], ..Evidence::default() };
        assert!(drafts(&alone).is_empty() && drafts(&Evidence::default()).is_empty());
        let unknown = Evidence { unordered: vec![unordered(7, 0, None)], ..Evidence::default() };
        assert_eq!(drafts(&unknown).len(), 1, "how many ranks there are is not known");
    }
}
