//! Allocations that failed, and who holds the memory.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, at, in_short, place_of_stack};
use crate::fixes::fixes;
use gpuwhy_model::{Cause, MemoryFailure, Severity, units};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "memory_failures",
    about: "allocations of device memory that failed, with the call sites that hold the memory",
    causes: &[Cause::GpuMemory],
    threshold: "one failed allocation: a program that caught it has slowed down, one that did not has died",
    refuted_by: "memory held by nobody traced: `SELECT memory_used_bytes FROM gpu_samples` far above what `memory_holders` sums to",
    find,
};

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut by_process: BTreeMap<u32, Vec<&MemoryFailure>> = BTreeMap::new();
    for failure in &case.evidence.memory_failures {
        by_process.entry(failure.pid).or_default().push(failure);
    }
    by_process.into_iter().filter_map(|(pid, failures)| draft(case, pid, &failures)).collect()
}

fn draft(case: &Case<'_>, pid: u32, failures: &[&MemoryFailure]) -> Option<Draft> {
    let last = failures.iter().max_by_key(|failure| (failure.time_ns, failure.tid))?;
    let op = case.evidence.ops.values().find(|op| op.id == last.op).map(|op| op.name.clone());
    let mut attribution = Attribution::default();
    // Time is not what it costs; a share needs some.
    let spent = case
        .evidence
        .failed_calls
        .iter()
        .filter(|call| call.pid == pid && Some(&call.op) == op.as_ref())
        .map(|call| call.ns)
        .sum::<u64>();
    attribution.add(Cause::GpuMemory, spent.max(1));
    attribution.note(
        Cause::GpuMemory,
        format!(
            "{} allocations failed, the last of {}, while {} were live",
            failures.len(),
            units::size(last.bytes),
            units::size(last.live_bytes)
        ),
    );
    let mut by_holder: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for holder in &last.holders {
        let place = place_of_stack(case, holder.stack_id);
        let site = in_short(&place).or_else(|| place.native.first().cloned());
        attribution.note(
            Cause::GpuMemory,
            format!(
                "{} in {} pieces held by {} from {}",
                units::size(holder.bytes),
                holder.count,
                case.name(holder.pid),
                site.unwrap_or_else(|| "a place without a stack".into())
            ),
        );
        let sum = by_holder.entry(holder.pid).or_default();
        sum.0 += holder.bytes;
        sum.1 += holder.count;
    }
    let held: u64 = by_holder.values().map(|(bytes, _)| bytes).sum();
    for (holder, (bytes, count)) in by_holder {
        let comm = case.comm(holder);
        let ns = (spent.max(1) as f64 * bytes as f64 / held.max(1) as f64) as u64;
        let share = Share { comm, pid: Some(holder), ns: ns.max(1), count, ..Share::default() };
        attribution.blame(Cause::GpuMemory, Who::Process(holder), share);
    }
    let place = place_of_stack(case, last.stack_id);
    let at = at(&place);
    Some(Draft {
        severity: Some(Severity::High),
        title: format!(
            "{} ran out of device memory{at}: {} more were asked for, {} are held",
            case.name(pid),
            units::size(last.bytes),
            units::size(last.live_bytes)
        ),
        op,
        pid: Some(pid),
        fixes: fixes(case, pid, &attribution),
        sql: "SELECT * FROM memory_holders ORDER BY bytes DESC".into(),
        attribution,
        place,
        ..Draft::default()
    })
}
