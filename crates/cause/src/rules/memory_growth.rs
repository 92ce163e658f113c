//! Device memory that grows and grows.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::{Draft, in_short, place_of_stack};
use crate::fixes::fixes;
use gpuwhy_model::{Cause, MemoryKind, MemoryUse, Severity, units};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "memory_growth",
    about: "device memory of a process that keeps growing after its start, with the call site that holds what grew",
    causes: &[Cause::GpuMemory],
    threshold: "live memory grows in each of the last three quarters of the trace, by 10% of its end at least and 16 MB: a model \
                that is loaded and a cache that fills grow at first and then stop. At least 4 s of trace",
    refuted_by: "a longer trace in which `SELECT live_bytes FROM memory_stats` levels off",
    find,
};

const MIN_NS: u64 = 4_000_000_000;
const MIN_BYTES: u64 = 16 << 20;
const MIN_SHARE: u64 = 10;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut series: BTreeMap<(u32, Option<u16>, MemoryKind), Vec<&MemoryUse>> = BTreeMap::new();
    for used in &case.evidence.memory {
        if matches!(used.kind, MemoryKind::Device | MemoryKind::Managed) {
            series.entry((used.pid, used.gpu, used.kind)).or_default().push(used);
        }
    }
    series.into_iter().filter_map(|((pid, ..), uses)| draft(case, pid, uses)).collect()
}

fn draft(case: &Case<'_>, pid: u32, mut uses: Vec<&MemoryUse>) -> Option<Draft> {
    uses.sort_by_key(|used| used.time_ns);
    let wall = case.wall(pid);
    // A process that ends gives everything back.
    let until = wall.end_ns - wall.ns() / 20;
    uses.retain(|used| used.time_ns <= until);
    let (first, last) = (uses.first()?, uses.last()?);
    if wall.ns() < MIN_NS {
        return None;
    }
    // Rows are there when something has changed: the last before a moment holds then.
    let at = |quarter: u64| {
        let moment = wall.start_ns + (until - wall.start_ns) / 4 * quarter;
        uses.iter().rev().find(|used| used.time_ns <= moment).map_or(0, |used| used.live_bytes)
    };
    let quarters = [at(1), at(2), at(3), last.live_bytes];
    let step = (last.live_bytes / MIN_SHARE).max(MIN_BYTES);
    if quarters.windows(2).any(|pair| pair[1] < pair[0] + step) {
        return None;
    }
    let grown = last.live_bytes - quarters[0];
    let mut attribution = Attribution::default();
    attribution.add(Cause::GpuMemory, 1);
    let seconds = (wall.ns() / 4 * 3) as f64 / 1e9;
    attribution.note(
        Cause::GpuMemory,
        format!(
            "live memory went from {} to {}, {} a second",
            units::size(quarters[0]),
            units::size(last.live_bytes),
            units::size((grown as f64 / seconds) as u64)
        ),
    );
    let total = case.evidence.gpus.iter().filter_map(|gpu| gpu.memory_total_bytes).max();
    let time_left = total
        .filter(|total| *total > last.live_bytes && grown > 0)
        .map(|total| ((total - last.live_bytes) as f64 / (grown as f64 / seconds) * 1e9) as u64);
    if let Some(ns) = time_left {
        attribution
            .note(Cause::GpuMemory, format!("at that pace the GPU is full in {}", units::duration(ns)));
    }
    let mut holders: Vec<_> = case
        .evidence
        .holders
        .iter()
        .filter(|held| held.pid == pid && held.newest_ns > first.time_ns + wall.ns() / 2)
        .collect();
    holders.sort_by_key(|held| (std::cmp::Reverse(held.bytes), held.stack_id));
    let place = place_of_stack(case, holders.iter().find_map(|held| held.stack_id));
    for held in holders.iter().take(3) {
        let site = place_of_stack(case, held.stack_id);
        let site = in_short(&site).or_else(|| site.native.first().cloned());
        attribution.note(
            Cause::GpuMemory,
            format!(
                "{} in {} pieces are from {}",
                units::size(held.bytes),
                held.count,
                site.unwrap_or_else(|| "a place without a stack".into())
            ),
        );
    }
    let comm = case.comm(pid);
    attribution.blame(
        Cause::GpuMemory,
        Who::Process(pid),
        Share { comm, pid: Some(pid), ns: 1, count: last.live_count, ..Share::default() },
    );
    let at = in_short(&place).map_or_else(String::new, |line| format!(", allocated at {line}"));
    Some(Draft {
        severity: Some(Severity::Medium),
        title: format!(
            "device memory of {} keeps growing: {} a second{at}",
            case.name(pid),
            units::size((grown as f64 / seconds) as u64)
        ),
        pid: Some(pid),
        op: holders.first().and_then(|held| held.op.clone()),
        fixes: fixes(case, pid, &attribution),
        sql: format!("SELECT timestamp_ns, live_bytes FROM memory_stats WHERE pid = {pid} ORDER BY 1"),
        attribution,
        place,
        ..Draft::default()
    })
}
