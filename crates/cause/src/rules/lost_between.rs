//! Time a thread that drives a GPU was kept from launching while it was in no call.

use super::Rule;
use crate::case::Case;
use crate::draft::{Draft, at, cause_in_words, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::severity::{matters, of_taken, percent};
use crate::thread_ledger::ThreadLedger;
use gpuwhy_model::{Cause, Place};

pub(super) const RULE: Rule = Rule {
    name: "lost_between",
    about: "what kept the launching thread between calls: disks, quotas, neighbours, the GIL, memory; directly, or through \
            the thread or process it waited for",
    causes: &[
        Cause::IoBlock,
        Cause::CpuPreempted,
        Cause::CpuThrottled,
        Cause::CpuInterrupt,
        Cause::PythonGil,
        Cause::MemFault,
        Cause::MemReclaim,
    ],
    threshold: "as `slow_calls`; sleeping, waiting for requests and for queues is not counted unless the one waited for was \
                itself kept from going on",
    refuted_by: "`SELECT cause, by_comm, sum(ns) FROM blame WHERE op IS NULL GROUP BY 1, 2` of the thread showing other waits",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut pids: Vec<u32> = case.threads.iter().map(|thread| thread.pid).collect();
    pids.dedup();
    pids.into_iter().filter_map(|pid| draft(case, worst(case, pid)?)).collect()
}

fn worst<'a>(case: &'a Case<'_>, pid: u32) -> Option<&'a ThreadLedger> {
    let of_process = case.threads.iter().filter(|thread| thread.pid == pid);
    of_process.max_by_key(|thread| (thread.taken.total_ns(), std::cmp::Reverse(thread.tid)))
}

fn draft(case: &Case<'_>, thread: &ThreadLedger) -> Option<Draft> {
    let mut bills = thread.taken.clone();
    let taken = bills.total_ns();
    let wall = thread.span.ns();
    if !matters(taken, wall) {
        return None;
    }
    let main = bills.main()?;
    say_what_was_waited_for(case, thread, &mut bills);
    let place = place(case, thread, main);
    let at = at(&place);
    Some(Draft {
        severity: Some(of_taken(taken, wall)),
        title: format!(
            "{} was kept from launching for {} ({:.0}% of its time){at}: {}",
            case.name(thread.pid),
            seconds(taken),
            percent(taken, wall),
            cause_in_words(case, &bills, main)
        ),
        pid: Some(thread.pid),
        window: Some(thread.span),
        fixes: fixes(case, thread.pid, &bills),
        sql: format!(
            "SELECT cause, by_pid, by_comm, sum(ns) / 1e6 AS ms, sum(count) AS count FROM blame WHERE pid = {} AND tid = {} \
             AND op IS NULL GROUP BY 1, 2, 3 ORDER BY ms DESC",
            thread.pid, thread.tid
        ),
        bills,
        place,
        ..Draft::default()
    })
}

pub(super) fn say_what_was_waited_for(
    case: &Case<'_>,
    thread: &ThreadLedger,
    bills: &mut crate::bills::Bills,
) {
    let mut waits: Vec<_> = case
        .evidence
        .waits
        .iter()
        .filter(|wait| wait.pid == thread.pid && wait.op.is_none() && wait.event != "request")
        .filter(|wait| wait.file.is_some() || wait.device.is_some() || wait.peer.is_some())
        .collect();
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.ns), wait.file.clone(), wait.device.clone()));
    for wait in waits.into_iter().take(3) {
        let what = [wait.file.as_deref(), wait.device.as_deref(), wait.peer.as_deref()];
        let what: Vec<&str> = what.into_iter().flatten().collect();
        let cause = cause_of_event(&wait.event);
        bills.say(
            cause,
            format!("{} waits of {} in all for {}", wait.count, seconds(wait.ns), what.join(" on ")),
        );
    }
}

fn cause_of_event(event: &str) -> Cause {
    match event {
        "block_io" => Cause::IoBlock,
        "file" => Cause::IoFile,
        "socket" | "poll" => Cause::NetWait,
        "fault" => Cause::MemFault,
        "reclaim" => Cause::MemReclaim,
        "futex" => Cause::LockFutex,
        _ => Cause::Unknown,
    }
}

/// Where the thread waits for that, as far as it was met there.
pub(super) fn place(case: &Case<'_>, thread: &ThreadLedger, main: Cause) -> Place {
    let site = case
        .evidence
        .wait_sites
        .iter()
        .filter(|site| (site.pid, site.tid) == (thread.pid, thread.tid))
        .filter(|site| Cause::of_part(None, site.part, 1) == main)
        .max_by_key(|site| (site.ns, std::cmp::Reverse(site.stack_id)));
    place_of_stack(case, site.map(|site| site.stack_id))
}
