//! A rank that arrives late at its collectives: all others wait for it.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::evidence::Arrival;
use crate::fixes::fixes;
use crate::path::{Scale, describe};
use crate::ranks::holds;
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
    let mut attribution = Attribution::default();
    attribution.add(Cause::RankStraggler, lost);
    let comm = case.comm(late.pid);
    let share = Share { comm, pid: Some(late.pid), ns: lost, count: late.last, ..Share::default() };
    attribution.blame(Cause::RankStraggler, Who::Rank(rank), share);
    attribution.note(
        Cause::RankStraggler,
        format!(
            "rank {rank} came last to {} of {complete} collectives; a rank waited {} for it on average in all",
            late.last,
            seconds(lost)
        ),
    );
    let mut place = place_of_stack(case, late.stack_id);
    let mut why = String::new();
    let mut what_to_do = Vec::new();
    if let Some((class, (key, part))) = holds(case, late.pid) {
        let own = place_of_stack(case, part.stack_id);
        why = format!(": {}{}", describe(case, key, part), at(&own));
        attribution.note(Cause::RankStraggler, format!("its own time went to{why}, {}", seconds(part.ns)));
        // Where it is kept is where to look, not where it comes late.
        if !(own.python.is_empty() && own.native.is_empty()) {
            place = own;
        }
        let mut of_reason = Attribution::default();
        of_reason.add(class, part.ns);
        what_to_do = fixes(case, late.pid, &of_reason);
    }
    let at = if why.is_empty() { at(&place) } else { String::new() };
    what_to_do.extend(fixes(case, late.pid, &attribution));
    Some(Draft {
        severity: Some(of_taken(late.alone_ns, wall)),
        title: format!(
            "rank {rank} ({}) comes late to its collectives{at}{why}; the others wait {} ({:.0}% of the time) for it",
            case.name(late.pid),
            seconds(lost),
            percent(lost, wall)
        ),
        saves_ms: Some([late.alone_ns as f64 / 1e6 / steps(case, late.pid); 2]),
        op,
        pid: Some(late.pid),
        rank: Some(rank),
        fixes: what_to_do,
        sql: "SELECT comm_id_hash, seq, rank, timestamp_ns, op FROM nccl_events ORDER BY 1, 2, 4".into(),
        attribution,
        place,
        ..Draft::default()
    })
}

/// How many steps the process made; one where they are not known.
fn steps(case: &Case<'_>, pid: u32) -> f64 {
    let path = case.paths.iter().find(|path| path.pid == pid);
    path.map_or(1.0, |path| Scale::of_loop(path).count)
}
