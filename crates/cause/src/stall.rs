//! Where the time of an operation's slow calls went: its excess over what the calls normally take, billed to causes.

use crate::{Tallies, Tally};
use gpuwhy_model::{Cause, OpInfo, Part};
use serde::Serialize;
use std::collections::HashMap;

/// An operation that cost a process more than its calls normally take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    pub op: String,
    pub pid: u32,
    pub calls: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Time beyond `calls` times the median.
    pub excess_ns: u64,
    /// Largest first; the shares are of the excess and sum to 100.
    pub causes: Vec<CauseShare>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseShare {
    pub cause: Cause,
    pub ns: u64,
    pub share_pct: f64,
    /// Largest first.
    pub by: Vec<By>,
}

/// Who was behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct By {
    pub pid: u32,
    pub comm: String,
    pub ns: u64,
    pub count: u64,
}

/// Every operation with an excess, largest first.
pub fn stalls(tallies: &Tallies, ops: &[OpInfo]) -> Vec<Stall> {
    let mut found: Vec<Stall> = tallies
        .by_process()
        .filter_map(|(pid, id, tally)| stall(pid, ops.iter().find(|op| op.id == id)?, tally))
        .collect();
    found.sort_by_key(|stall| std::cmp::Reverse(stall.excess_ns));
    found
}

fn stall(pid: u32, op: &OpInfo, tally: &Tally) -> Option<Stall> {
    if tally.count == 0 {
        return None;
    }
    let p50_ns = tally.quantile_ns(0.5);
    // Waits are no part of a normal call; of the time on the CPU, what a normal call takes is not excess.
    let on_cpu_excess = tally.blame.oncpu_ns.saturating_sub(tally.count * p50_ns);
    let mut by_cause: HashMap<Cause, (u64, Vec<By>)> = HashMap::new();
    for (part, ns) in tally.blame.parts() {
        match part {
            Part::OnCpu => {
                by_cause.entry(Cause::of_part(Some(op), part, 0)).or_default().0 += on_cpu_excess;
            }
            waited => bill_part(&mut by_cause, op, tally, waited, ns),
        }
    }
    let excess_ns: u64 = by_cause.values().map(|(ns, _)| ns).sum();
    if excess_ns == 0 {
        return None;
    }
    let mut causes: Vec<CauseShare> = by_cause
        .into_iter()
        .filter(|(_, (ns, _))| *ns > 0)
        .map(|(cause, (ns, mut by))| {
            by.sort_by_key(|by| std::cmp::Reverse(by.ns));
            CauseShare { cause, ns, share_pct: 100.0 * ns as f64 / excess_ns as f64, by }
        })
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    Some(Stall {
        op: op.name.clone(),
        pid,
        calls: tally.count,
        p50_ns,
        p99_ns: tally.quantile_ns(0.99),
        max_ns: tally.max_ns,
        excess_ns,
        causes,
    })
}

/// Bills one kind of wait to those behind it; what nobody was found behind is billed all the same.
fn bill_part(
    by_cause: &mut HashMap<Cause, (u64, Vec<By>)>,
    op: &OpInfo,
    tally: &Tally,
    part: Part,
    total_ns: u64,
) {
    let mut left = total_ns;
    for ((by_part, pid, comm), (ns, count)) in &tally.by {
        if *by_part != part {
            continue;
        }
        // Waits of calls still in flight are not in the call sums yet.
        let ns = (*ns).min(left);
        left -= ns;
        let (sum, by) = by_cause.entry(Cause::of_part(Some(op), part, *pid)).or_default();
        *sum += ns;
        if *pid != 0 && ns > 0 {
            add_culprit(by, By { pid: *pid, comm: comm.clone(), ns, count: *count });
        }
    }
    if left > 0 {
        by_cause.entry(Cause::of_part(Some(op), part, 0)).or_default().0 += left;
    }
}

/// Threads of one process are one culprit, named for the one that did most.
fn add_culprit(culprits: &mut Vec<By>, by: By) {
    match culprits.iter_mut().find(|known| known.pid == by.pid) {
        Some(known) => {
            if by.ns > known.ns {
                known.comm = by.comm;
            }
            known.ns += by.ns;
            known.count += by.count;
        }
        None => culprits.push(by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Batch, Blame, CallWindow, Family, Histogram, Layer, OpId, Wait};

    fn launch() -> OpInfo {
        OpInfo {
            id: OpId(1),
            name: "cuLaunchKernel".into(),
            layer: Layer::Cuda,
            family: Family::Launch,
            waits_for_gpu: false,
            role: gpuwhy_model::Role::None,
        }
    }

    fn batch() -> Batch {
        let mut hist = Histogram::default();
        for _ in 0..99 {
            hist.record(1_000);
        }
        hist.record(10_000_000);
        let window = CallWindow {
            window_start_ns: 0,
            window_ns: 1,
            pid: 7,
            tid: 7,
            op: OpId(1),
            direction: None,
            count: 100,
            errors: 0,
            kept: 1,
            bytes: 0,
            sum_ns: 99_000 + 10_000_000,
            min_ns: 1_000,
            max_ns: 10_000_000,
            blame: Blame { oncpu_ns: 100_000, runq_ns: 9_999_000, ..Blame::default() },
            hist,
            cost_ns: 0,
        };
        let wait = Wait {
            window_start_ns: 0,
            pid: 7,
            tid: 7,
            op: OpId(1),
            part: Part::Runnable,
            by_pid: 99,
            by_tid: 99,
            by_comm: "cpu-hog".into(),
            by_cgroup_id: 0,
            ns: 9_000_000,
            count: 3,
        };
        Batch { windows: vec![window], waits: vec![wait], ..Batch::default() }
    }

    #[test]
    fn a_hog_is_named_and_shares_sum_to_100() {
        let mut tallies = Tallies::default();
        tallies.add(&batch());
        let stalls = stalls(&tallies, &[launch()]);
        assert_eq!(stalls.len(), 1);
        let first = &stalls[0].causes[0];
        assert_eq!(first.cause, Cause::CpuPreempted);
        assert_eq!((first.by[0].comm.as_str(), first.by[0].ns), ("cpu-hog", 9_000_000));
        assert!(first.share_pct > 85.0);
        let sum: f64 = stalls[0].causes.iter().map(|cause| cause.share_pct).sum();
        assert!((sum - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_wait_nobody_is_behind_stays_unknown() {
        let mut tallies = Tallies::default();
        tallies.add(&batch());
        let stalls = stalls(&tallies, &[launch()]);
        let unknown = stalls[0].causes.iter().find(|cause| cause.cause == Cause::Unknown).unwrap();
        assert_eq!(unknown.ns, 999_000);
        assert!(unknown.by.is_empty());
    }

    #[test]
    fn quiet_calls_are_no_stall() {
        assert!(stalls(&Tallies::default(), &[launch()]).is_empty());
    }
}
