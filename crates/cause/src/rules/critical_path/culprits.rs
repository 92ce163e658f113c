//! Who is behind a part of a path, and how the path came there.

use crate::attribution::{Attribution, Share, Who};
use crate::case::{Case, is_kernel_thread};
use crate::draft::{in_short, place_of_stack, seconds};
use crate::path::{Key, Part, ProcessPath, who};
use gpuwhy_model::Cause;
use std::collections::BTreeMap;

pub(super) fn name_culprits(
    case: &Case<'_>,
    path: &ProcessPath,
    key: &Key,
    part: &Part,
    attribution: &mut Attribution,
) {
    let pid = path.pid;
    let comm = |tid: u32| {
        let thread = case.evidence.activity.threads.get(&tid);
        thread.map(|thread| thread.comm.clone()).unwrap_or_default()
    };
    let names_others = matches!(
        key.class,
        Cause::CpuPreempted
            | Cause::PythonGil
            | Cause::LockFutex
            | Cause::IoFile
            | Cause::NetWait
            | Cause::ProcWait
    );
    // Who brings a packet is not who sent it.
    let is_peer = |tid: u32| key.class != Cause::NetWait || !is_kernel_thread(&comm(tid));
    if names_others && part.by.keys().any(|(_, tid)| is_peer(*tid)) {
        // Children that ran the same command one after the other are one culprit.
        let mut first_of: BTreeMap<String, u32> = BTreeMap::new();
        for ((by_pid, by_tid), ns) in part.by.iter().filter(|((_, tid), _)| is_peer(*tid)) {
            let comm = comm(*by_tid);
            let stands_for_all = match key.class {
                Cause::ProcWait => *first_of.entry(comm.clone()).or_insert(*by_pid),
                _ => *by_pid,
            };
            let share = Share { comm, pid: Some(stands_for_all), ns: *ns, count: 1, ..Share::default() };
            attribution.blame(key.class, Who::Process(stands_for_all), share);
            if let Some(command) =
                case.evidence.activity.commands.get(by_pid).filter(|_| key.class == Cause::ProcWait)
            {
                attribution.note(key.class, format!("the child ran: {}", command.command));
            }
        }
        return;
    }
    if key.class == Cause::GpuWait && !path.sharers.is_empty() {
        for other in &path.sharers {
            let ns = part.ns / (path.sharers.len() as u64 + 1);
            let share =
                Share { comm: case.comm(*other), pid: Some(*other), ns, count: 1, ..Share::default() };
            attribution.blame(key.class, Who::Process(*other), share);
        }
        return;
    }
    let object = part.objects.iter().max_by_key(|(_, ns)| **ns);
    let object = object.and_then(|(at, _)| case.evidence.activity.objects.get(*at as usize));
    if let (Cause::NetWait, Some(peer)) = (key.class, object) {
        let share = Share { comm: peer.clone(), ns: part.ns, count: part.waits, ..Share::default() };
        attribution.blame(key.class, Who::Named(peer.clone()), share);
        return;
    }
    let others: u64 = part.others.iter().map(|(_, ns)| ns).sum();
    for (tid, ns) in [(key.tid, part.ns.saturating_sub(others))].iter().chain(&part.others) {
        let of = case.evidence.activity.threads.get(tid).map_or(pid, |thread| thread.pid);
        let share =
            Share { comm: comm(*tid), pid: Some(of), ns: *ns, count: part.waits.max(1), ..Share::default() };
        attribution.blame(key.class, Who::Process(of), share);
    }
}

/// How the path came to the thread.
pub(super) fn add_way(case: &Case<'_>, path: &ProcessPath, key: &Key, attribution: &mut Attribution) {
    let mut tid = key.tid;
    let mut seen = vec![tid];
    while let Some(way) = path.ways.get(&tid).filter(|_| tid != path.pid) {
        if seen.contains(&way.from_tid) && way.from_tid != path.pid {
            break;
        }
        let place = place_of_stack(case, way.stack_id);
        let line = in_short(&place).map_or_else(String::new, |line| format!(" at {line}"));
        attribution.note(
            key.class,
            format!(
                "on the way: {} waited for {}{line} ({}, {} waits)",
                who(case, way.from_tid),
                who(case, tid),
                seconds(way.ns),
                way.count
            ),
        );
        tid = way.from_tid;
        seen.push(tid);
        if seen.len() > 6 {
            break;
        }
    }
}
