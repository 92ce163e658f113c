//! Connections that lose segments, and the waits that go with it.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, seconds};
use crate::evidence::{AttributedTime, Retransmits};
use crate::fixes::fixes;
use crate::severity::{of_taken, percent};
use gpuwhy_model::Cause;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "retransmits",
    about: "TCP segments of a traced process that had to be sent again, and the time its threads waited on sockets meanwhile",
    causes: &[Cause::NetTcp],
    threshold: "10 segments: a healthy network loses one now and then. As bad as the time its threads waited for sockets, \
                but 200 ms a segment at most: that is how long its timer takes",
    refuted_by: "the same waits without rows in `tcp_events`, or in a process that has no such connection",
    find,
};

const MIN: u64 = 10;
/// Before a segment is sent again its timer has run out, which takes that long at first: other waits for sockets, as for
/// the next request, are not the network's doing.
pub const RETRANSMIT_TIMER_NS: u64 = 200_000_000;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut by_process: BTreeMap<u32, Vec<&Retransmits>> = BTreeMap::new();
    // Everybody's are told of; only traced processes are judged.
    for connection in case.evidence.retransmits.iter().filter(|it| case.process(it.pid).is_some()) {
        by_process.entry(connection.pid).or_default().push(connection);
    }
    by_process.into_iter().filter_map(|(pid, connections)| draft(case, pid, connections)).collect()
}

/// What of the time waited for sockets the segments account for that were sent again meanwhile.
pub fn lost_to_retransmits(segments: u64, waited_ns: u64) -> u64 {
    waited_ns.min(segments.saturating_mul(RETRANSMIT_TIMER_NS))
}

/// How long a process waited because its segments had to be sent again; nothing where that were few.
pub(super) fn lost_ns(case: &Case<'_>, pid: u32) -> u64 {
    let count: u64 = case.evidence.retransmits.iter().filter(|it| it.pid == pid).map(|it| it.count).sum();
    match count {
        ..MIN => 0,
        _ => lost_to_retransmits(count, waits(case, pid).map(|row| row.ns).sum()),
    }
}

/// Its waits for sockets.
fn waits<'a>(case: &'a Case<'_>, pid: u32) -> impl Iterator<Item = &'a AttributedTime> {
    let is_wait =
        move |row: &&AttributedTime| row.pid == pid && matches!(row.cause, Cause::NetWait | Cause::NetTcp);
    case.evidence.attribution.iter().filter(is_wait)
}

fn draft(case: &Case<'_>, pid: u32, mut connections: Vec<&Retransmits>) -> Option<Draft> {
    let count: u64 = connections.iter().map(|connection| connection.count).sum();
    if count < MIN {
        return None;
    }
    connections.sort_by_key(|connection| (std::cmp::Reverse(connection.count), &connection.remote));
    let wall = case.wall(pid).ns();
    let lost = lost_ns(case, pid);
    let in_calls = waits(case, pid).filter(|row| row.op.is_some());
    let op = in_calls.max_by_key(|row| (row.ns, std::cmp::Reverse(row.tid)));
    let mut attribution = Attribution::default();
    attribution.add(Cause::NetTcp, lost.max(1));
    for connection in &connections {
        let share = Share {
            comm: connection.remote.clone(),
            ns: ((lost as f64 * connection.count as f64 / count as f64) as u64).max(1),
            count: connection.count,
            ..Share::default()
        };
        attribution.blame(Cause::NetTcp, Who::Named(connection.remote.clone()), share);
    }
    let worst = connections.first()?;
    let rank = worst.rank.map_or_else(String::new, |rank| format!(" of rank {rank}"));
    for connection in connections.iter().take(3) {
        attribution.note(
            Cause::NetTcp,
            format!(
                "{} segments sent again from {} to {}{rank}",
                connection.count, connection.local, connection.remote
            ),
        );
    }
    attribution.note(Cause::NetTcp, format!("its threads waited for sockets for {} in all", seconds(lost)));
    Some(Draft {
        severity: Some(of_taken(lost, wall)),
        title: format!(
            "the connection of {}{rank} to {} loses segments: {count} were sent again, {} ({:.0}% of the time) waited",
            case.name(pid),
            worst.remote,
            seconds(lost),
            percent(lost, wall)
        ),
        op: op.and_then(|row| row.op.clone()),
        pid: Some(pid),
        rank: worst.rank,
        fixes: fixes(case, pid, &attribution),
        sql: format!(
            "SELECT saddr, sport, daddr, dport, count(*) AS segments FROM tcp_events WHERE pid = {pid} GROUP BY 1, 2, 3, 4"
        ),
        attribution,
        ..Draft::default()
    })
}
