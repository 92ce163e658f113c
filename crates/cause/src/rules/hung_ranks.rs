//! Collectives that do not end: a rank is missing, or ranks do not agree on what they do.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, in_short, place_of_stack, seconds};
use crate::evidence::{Arrival, HangingCall};
use crate::fixes::fixes;
use gpuwhy_model::{Cause, Severity, Span};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    name: "hung_ranks",
    about: "ranks that wait in a collective which others never joined, or joined with another operation, count or type",
    causes: &[Cause::RankHang],
    threshold: "a mismatch between ranks at the same number of a communicator, at once; a collective that some traced ranks are \
                in, or wait for, for 2 s while another rank of it is not: normal ones take milliseconds",
    refuted_by: "the missing rank arriving later: a row of it in `nccl_events` with that `comm_id_hash` and `seq`",
    find,
};

const MIN_NS: u64 = 2_000_000_000;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.rounds()
        .into_iter()
        .filter_map(|(comm, rounds)| mismatch(case, comm, &rounds).or_else(|| missing(case, comm, &rounds)))
        .collect()
}

/// The first collective that ranks do not agree on.
fn mismatch(case: &Case<'_>, comm: &str, rounds: &BTreeMap<u64, Vec<&Arrival>>) -> Option<Draft> {
    for (seq, arrivals) in rounds {
        let mut kinds: BTreeMap<String, Vec<&Arrival>> = BTreeMap::new();
        for arrival in arrivals {
            kinds.entry(message(arrival)).or_default().push(arrival);
        }
        if kinds.len() < 2 {
            continue;
        }
        // Those in the minority differ from the rest.
        let odd =
            kinds.iter().min_by_key(|(kind, ranks)| (ranks.len(), std::cmp::Reverse((*kind).clone())))?;
        let usual = kinds.iter().max_by_key(|(kind, ranks)| (ranks.len(), (*kind).clone()))?;
        let ranks: Vec<String> = odd.1.iter().map(|arrival| arrival.rank.to_string()).collect();
        let about =
            format!("at number {seq} rank {} called {}, the others {}", ranks.join(", "), odd.0, usual.0);
        let first = odd.1.first()?;
        let op = usual.1.first()?.op.clone();
        let odd =
            Odd { comm, seq: *seq, rank: first.rank, pid: Some(first.pid), stack_id: first.stack_id, op };
        return Some(draft(case, &odd, "does not match", &about));
    }
    None
}

fn message(arrival: &Arrival) -> String {
    let mut message = arrival.op.clone();
    // Senders and receivers, and gathers with parts of different size, may differ.
    if matches!(arrival.op.as_str(), "ncclSend" | "ncclRecv") {
        return "send or receive".into();
    }
    if let Some(count) = arrival.count {
        message += &format!(" of {count}");
    }
    if let Some(datatype) = &arrival.datatype {
        message += &format!(" {datatype}");
    }
    if let Some(reduce) = &arrival.reduce_op {
        message += &format!(" {reduce}");
    }
    message
}

/// Ranks that are not at the collective others wait in.
fn missing(case: &Case<'_>, comm: &str, rounds: &BTreeMap<u64, Vec<&Arrival>>) -> Option<Draft> {
    let (seq, arrivals) = rounds.iter().next_back()?;
    let nranks = arrivals.iter().map(|arrival| arrival.nranks).max()?;
    let present: BTreeSet<i32> = arrivals.iter().map(|arrival| arrival.rank).collect();
    let hanging: Vec<&HangingCall> = case
        .evidence
        .in_flight
        .iter()
        .filter(|hanging| arrivals.iter().any(|arrival| arrival.pid == hanging.call.pid))
        .filter(|hanging| hanging.call.seen_ns.saturating_sub(hanging.call.start_ns) >= MIN_NS)
        .filter(|hanging| waits_for_others(case, hanging))
        .collect();
    if hanging.is_empty() || present.len() as i32 >= nranks {
        return None;
    }
    // Only ranks that were seen in this communicator before are known to be traced; of others nothing is known.
    let mut known: BTreeMap<i32, &Arrival> = BTreeMap::new();
    for arrival in rounds.values().flatten() {
        known.insert(arrival.rank, arrival);
    }
    let absent: Vec<i32> = (0..nranks).filter(|rank| !present.contains(rank)).collect();
    let rank =
        absent.iter().copied().find(|rank| known.contains_key(rank)).or_else(|| absent.first().copied())?;
    let (pid, stack_id, last_seq) = known
        .get(&rank)
        .map_or((None, None, None), |arrival| (Some(arrival.pid), arrival.stack_id, Some(arrival.seq)));
    let own = case.evidence.in_flight.iter().find(|hanging| Some(hanging.call.pid) == pid);
    let stack_id = own.and_then(|hanging| hanging.call.stack_id).or(stack_id);
    let longest = hanging
        .iter()
        .map(|hanging| hanging.call.seen_ns.saturating_sub(hanging.call.start_ns))
        .max()
        .unwrap_or_default();
    let mut about = format!(
        "{} of {nranks} ranks wait at number {seq} for up to {}; rank {rank} is not there",
        present.len(),
        seconds(longest)
    );
    about += &match (pid, last_seq) {
        (Some(pid), Some(last)) => {
            let ended = case.process(pid).and_then(|process| process.end_ns);
            let state = if ended.is_some() { "has ended" } else { "runs on" };
            format!(": it was last seen at number {last}, and its process {} {state}", case.name(pid))
        }
        _ => ": it was never seen on this node".into(),
    };
    let op = arrivals.first()?.op.clone();
    Some(draft(case, &Odd { comm, seq: *seq, rank, pid, stack_id, op }, "never came", &about))
}

/// In a collective, or in a call that waits for the GPU, where a collective's kernel waits.
fn waits_for_others(case: &Case<'_>, hanging: &HangingCall) -> bool {
    let info = case.info(&hanging.op);
    hanging.call.comm_id_hash.is_some()
        || info.is_some_and(|info| info.waits_for_gpu || info.layer == gpuwhy_model::Layer::Nccl)
}

/// The rank that is not where the others are.
struct Odd<'a> {
    comm: &'a str,
    seq: u64,
    rank: i32,
    pid: Option<u32>,
    stack_id: Option<i64>,
    op: String,
}

fn draft(case: &Case<'_>, odd: &Odd<'_>, verb: &str, about: &str) -> Draft {
    let Odd { comm, seq, rank, pid, stack_id, op } = odd;
    let span = case.evidence.span;
    let start = case
        .evidence
        .collectives
        .iter()
        .filter(|arrival| arrival.comm == *comm && arrival.seq == *seq)
        .map(|arrival| arrival.start_ns)
        .min()
        .unwrap_or(span.start_ns);
    let lost = span.end_ns.saturating_sub(start).max(1);
    let mut attribution = Attribution::default();
    attribution.add(Cause::RankHang, lost);
    let process = pid.and_then(|pid| case.process(pid));
    let comm_name = process.map_or_else(|| format!("rank {rank}"), |process| process.comm.clone());
    let share = Share { comm: comm_name, pid: *pid, ns: lost, count: 1, ..Share::default() };
    attribution.blame(Cause::RankHang, Who::Rank(*rank), share);
    attribution.note(Cause::RankHang, about.to_string());
    let place = place_of_stack(case, *stack_id);
    let at = in_short(&place).map_or_else(String::new, |line| format!(", last seen at {line}"));
    Draft {
        severity: Some(Severity::Critical),
        title: format!("rank {rank} {verb} at collective {seq} ({op}){at}: {about}"),
        op: Some(op.clone()),
        pid: *pid,
        rank: Some(*rank),
        window: Some(Span { start_ns: start, end_ns: span.end_ns }),
        fixes: fixes(case, pid.unwrap_or_default(), &attribution),
        sql: format!(
            "SELECT rank, pid, seq, op, count, datatype, timestamp_ns FROM nccl_events WHERE comm_id_hash = '{comm}' \
             AND seq >= {seq} ORDER BY seq, rank"
        ),
        attribution,
        place,
        ..Draft::default()
    }
}
