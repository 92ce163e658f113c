//! Waits that are too short, or too many, to be recorded one by one: what is known of them is their sums.

use crate::evidence::AttributedTime;
use gpuwhy_model::{Cause, Family, OpInfo};
use std::collections::BTreeMap;

/// Shares of unrecorded waits in the time of each thread that no recorded wait covers: the exact sums of its waits less what
/// was recorded one by one, by who was behind them.
pub(crate) fn short_waits(
    ops: &BTreeMap<String, OpInfo>,
    attribution: &[&AttributedTime],
    recorded: &BTreeMap<(u32, Cause), BTreeMap<u32, u64>>,
    uncovered_ns: &BTreeMap<u32, u64>,
) -> BTreeMap<u32, Vec<(Cause, u32, f64)>> {
    /// Less is noise of two clocks.
    const MIN_SHARE: f64 = 0.005;
    let mut sums: BTreeMap<(u32, Cause), BTreeMap<u32, u64>> = BTreeMap::new();
    for row in attribution.iter().filter(|row| is_wait(row)) {
        let cause = in_call(row.op.as_ref().and_then(|op| ops.get(op)), row.cause);
        *sums.entry((row.tid, cause)).or_default().entry(row.by_tid).or_default() += row.ns;
    }
    let mut shares: BTreeMap<u32, Vec<(Cause, u32, f64)>> = BTreeMap::new();
    for ((tid, cause), mut by) in sums {
        let recorded = recorded.get(&(tid, cause));
        let missing: u64 =
            by.values().sum::<u64>().saturating_sub(recorded.map_or(0, |by| by.values().sum()));
        let Some(uncovered) = uncovered_ns.get(&tid).filter(|ns| **ns > 0) else { continue };
        let share = (missing as f64 / *uncovered as f64).min(1.0);
        if share < MIN_SHARE {
            continue;
        }
        // A recorded wait has one culprit, the sums have all of them: what is missing is divided as the differences are.
        for (who, ns) in &mut by {
            *ns = ns.saturating_sub(recorded.and_then(|by| by.get(who)).copied().unwrap_or(0));
        }
        let known: u64 = by.values().sum();
        let of_tid = shares.entry(tid).or_default();
        of_tid.extend(
            by.into_iter()
                .filter(|(_, ns)| *ns > 0)
                .map(|(who, ns)| (cause, who, share * ns as f64 / known as f64)),
        );
    }
    for all in shares.values_mut() {
        let total: f64 = all.iter().map(|(_, _, share)| share).sum();
        if total > 1.0 {
            all.iter_mut().for_each(|(_, _, share)| *share /= total);
        }
    }
    shares
}

/// What a wait is within a call: a library may sleep until the GPU is done, and a copy that faults fills memory that is new, so
/// that the pages are a part of what it costs to copy.
pub(crate) fn in_call(op: Option<&OpInfo>, cause: Cause) -> Cause {
    match cause {
        Cause::MemFault if op.is_some_and(|op| op.family == Family::Copy) => Cause::CopyPcie,
        Cause::LockFutex | Cause::SelfSleep if op.is_some_and(|op| op.waits_for_gpu) => Cause::GpuWait,
        cause => cause,
    }
}

/// Time that a thread did not run.
fn is_wait(row: &AttributedTime) -> bool {
    !matches!(
        row.cause,
        Cause::CpuSelf
            | Cause::GpuWait
            | Cause::GpuAlloc
            | Cause::Unknown
            | Cause::GpuColdstart
            | Cause::CopyPcie
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Family, Layer, OpId, Role};

    fn preempted(by_tid: u32, ns: u64) -> AttributedTime {
        AttributedTime {
            pid: 1,
            tid: 1,
            op: None,
            cause: Cause::CpuPreempted,
            by_pid: by_tid,
            by_tid,
            by_comm: String::new(),
            by_cgroup_id: 0,
            ns,
            count: 1,
            first_ns: 0,
            last_ns: 0,
        }
    }

    #[test]
    fn short_waits_are_divided_among_those_behind_them() {
        let attribution = [preempted(2, 600), preempted(3, 300), preempted(4, 100)];
        let attribution: Vec<&AttributedTime> = attribution.iter().collect();
        // Half of what the second thread took was recorded wait by wait, and all of the fourth's.
        let recorded = [((1, Cause::CpuPreempted), [(2, 300), (4, 100)].into())].into();
        let shares = short_waits(&BTreeMap::new(), &attribution, &recorded, &[(1, 6_000)].into());
        assert_eq!(shares[&1], [(Cause::CpuPreempted, 2, 0.05), (Cause::CpuPreempted, 3, 0.05)]);
    }

    #[test]
    fn a_short_sleep_in_a_call_that_waits_for_the_gpu_is_that_wait() {
        let sync = OpInfo {
            id: OpId(6),
            name: "cudaStreamSynchronize".into(),
            layer: Layer::Cuda,
            family: Family::Sync,
            waits_for_gpu: true,
            role: Role::None,
        };
        let row =
            AttributedTime { op: Some(sync.name.clone()), cause: Cause::LockFutex, ..preempted(0, 600) };
        let shares =
            short_waits(&[(sync.name.clone(), sync)].into(), &[&row], &BTreeMap::new(), &[(1, 6_000)].into());
        assert_eq!(shares[&1], [(Cause::GpuWait, 0, 0.1)]);
    }

    #[test]
    fn what_is_recorded_wait_by_wait_is_no_short_wait() {
        let (row, recorded) = (preempted(2, 600), [((1, Cause::CpuPreempted), [(2, 600)].into())].into());
        assert!(short_waits(&BTreeMap::new(), &[&row], &recorded, &[(1, 6_000)].into()).is_empty());
    }
}
