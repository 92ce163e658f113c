//! A rank that arrives late at its collectives: all others wait for it.

use super::Rule;
use crate::bills::{Bills, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::evidence::Arrival;
use crate::fixes::fixes;
use crate::path::describe;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::Cause;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "late_ranks",
    about: "the rank that arrives last at collectives of which several ranks were traced, and how long the others waited",
    causes: &[Cause::RankStraggler],
    threshold: "last in half of the collectives, and 1% of the time lost by the second to last, who waited least. \
                Ranks that were not traced are not judged",
    refuted_by: "`SELECT seq, rank, timestamp_ns FROM nccl_events ORDER BY seq, timestamp_ns` with ranks taking turns at being last",
    find,
};

/// What is known of one rank of a communicator.
#[derive(Debug, Default)]
struct Late {
    pid: u32,
    last: u64,
    /// Behind the one before it.
    alone_ns: u64,
    /// The waits of all others, by operation.
    by_op: BTreeMap<String, u64>,
    stack_id: Option<i64>,
}

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut comms: BTreeMap<&str, BTreeMap<u64, Vec<&Arrival>>> = BTreeMap::new();
    for arrival in &case.evidence.collectives {
        comms.entry(&arrival.comm).or_default().entry(arrival.seq).or_default().push(arrival);
    }
    comms.into_values().filter_map(|rounds| draft(case, &rounds)).collect()
}

fn draft(case: &Case<'_>, rounds: &BTreeMap<u64, Vec<&Arrival>>) -> Option<Draft> {
    let mut ranks: BTreeMap<i32, Late> = BTreeMap::new();
    let mut complete = 0;
    for arrivals in rounds.values() {
        let mut arrivals = arrivals.clone();
        arrivals.sort_by_key(|arrival| (arrival.start_ns, arrival.rank));
        let [.., before, last] = arrivals.as_slice() else { continue };
        complete += 1;
        let late = ranks.entry(last.rank).or_default();
        late.pid = last.pid;
        late.last += 1;
        late.alone_ns += last.start_ns - before.start_ns;
        late.stack_id = late.stack_id.or(last.stack_id);
        let waited: u64 = arrivals.iter().map(|arrival| last.start_ns - arrival.start_ns).sum();
        *late.by_op.entry(last.op.clone()).or_default() += waited / (arrivals.len() as u64 - 1);
    }
    let (rank, late) =
        ranks.into_iter().max_by_key(|(rank, late)| (late.alone_ns, std::cmp::Reverse(*rank)))?;
    let wall = case.wall(late.pid).ns();
    if late.last * 2 < complete || !matters(late.alone_ns, wall) {
        return None;
    }
    let lost: u64 = late.by_op.values().sum();
    let op = late
        .by_op
        .iter()
        .max_by_key(|(op, ns)| (**ns, std::cmp::Reverse((*op).clone())))
        .map(|(op, _)| op.clone());
    let mut bills = Bills::default();
    bills.add(Cause::RankStraggler, lost);
    let comm = case.comm(late.pid);
    let share = Share { comm, pid: Some(late.pid), ns: lost, count: late.last, ..Share::default() };
    bills.blame(Cause::RankStraggler, Who::Rank(rank), share);
    bills.say(
        Cause::RankStraggler,
        format!(
            "rank {rank} came last to {} of {complete} collectives; a rank waited {} for it on average in all",
            late.last,
            seconds(lost)
        ),
    );
    if let Some(why) = why_late(case, late.pid) {
        bills.say(Cause::RankStraggler, why);
    }
    let place = place_of_stack(case, late.stack_id);
    let at = at(&place);
    Some(Draft {
        severity: Some(of_taken(late.alone_ns, wall)),
        title: format!(
            "rank {rank} ({}) comes late to its collectives{at}: the others wait {} ({:.0}% of the time) for it",
            case.name(late.pid),
            seconds(lost),
            percent(lost, wall)
        ),
        op,
        pid: Some(late.pid),
        rank: Some(rank),
        fixes: fixes(case, late.pid, &bills),
        sql: "SELECT comm_id_hash, seq, rank, timestamp_ns, op FROM nccl_events ORDER BY 1, 2, 4".into(),
        bills,
        place,
        ..Draft::default()
    })
}

/// What the rank's own path is in, as far as that was seen: its waits for peers and for the GPU are no reason.
fn why_late(case: &Case<'_>, pid: u32) -> Option<String> {
    let path = case.paths.iter().find(|path| path.pid == pid)?;
    let is_own = |class: Cause| !matches!(class, Cause::GpuWait | Cause::NetWait | Cause::LaunchBound);
    let own = path.loop_parts.iter().filter(|(key, _)| is_own(key.class));
    let (key, part) = own.max_by_key(|(_, part)| part.ns)?;
    let place = place_of_stack(case, part.stack_id);
    Some(format!("its own time went to: {}{}, {}", describe(case, key, part), at(&place), seconds(part.ns)))
}
