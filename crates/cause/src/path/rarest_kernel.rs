//! Steps of a loop that does nothing but launch: nothing marks them, but the kernels before and behind the layers of a model come once in
//! each. How many there are is told by their share of all launches.

use super::period::{CountedBy, Period};
use crate::activity::BeatKind;
use crate::evidence::Evidence;
use gpuwhy_model::{Role, Span};

/// A model has several layers: the most frequent kernel comes so many times in a step at least. Where all come about equally often,
/// a step cannot be told from a layer.
const MIN_LAYERS: u64 = 6;
/// Fewer launches do not tell how rare a kernel is.
const MIN_LAUNCHES: u64 = 50;
/// One kernel alone may be that of a line of a log: so many come once in a step,
const MIN_KERNELS: usize = 2;
/// and as often as each other, in percent.
const ALIKE_PCT: u64 = 115;
/// Fewer are no loop.
const MIN_STEPS: u64 = 6;

pub(super) fn rarest_kernel(evidence: &Evidence, pid: u32, span: Span) -> Option<Period> {
    // What was launched at the start alone is no part of the loop.
    let middle_ns = span.start_ns + span.ns() / 2;
    let of_loop = evidence.kernels.iter().filter(|kernel| kernel.pid == pid && kernel.last_ns >= middle_ns);
    let mut counts: Vec<u64> = of_loop.map(|kernel| kernel.launches).collect();
    counts.sort_unstable();
    let (fewest, most) = (*counts.first()?, *counts.last()?);
    let alike = counts.iter().filter(|count| **count * 100 <= fewest * ALIKE_PCT).count();
    if fewest < MIN_LAUNCHES || most < fewest * MIN_LAYERS || alike < MIN_KERNELS {
        return None;
    }
    let is_launch = |op: &str| evidence.ops.get(op).is_some_and(|op| op.role == Role::Launch);
    let of_process = evidence.sums.iter().filter(|sums| sums.pid == pid && is_launch(&sums.op));
    let launches: u64 = of_process.map(|sums| sums.count).sum();
    let share = fewest as f64 / counts.iter().sum::<u64>() as f64;
    let count = (launches as f64 * share).round() as u64;
    (count >= MIN_STEPS).then(|| Period {
        kind: BeatKind::Kernel,
        times: Vec::new(),
        median_ns: span.ns() / count,
        counted_by: Some(CountedBy::Total(count)),
        counted_until_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{KernelLaunches, OpSums};
    use gpuwhy_model::{Family, Layer, OpId, OpInfo};

    const SPAN: Span = Span { start_ns: 1_000_000_000, end_ns: 3_000_000_000 };

    /// Launches of which a tenth was watched.
    fn launched(counts: &[u64]) -> Evidence {
        let mut evidence = Evidence::default();
        let op = OpInfo {
            id: OpId(1),
            name: "cuLaunchKernel".into(),
            layer: Layer::Cuda,
            family: Family::Launch,
            waits_for_gpu: false,
            role: Role::Launch,
        };
        evidence.ops.insert(op.name.clone(), op);
        let count = counts.iter().sum::<u64>() * 10;
        evidence.sums.push(OpSums { pid: 7, op: "cuLaunchKernel".into(), count, ..OpSums::default() });
        let of_loop = |launches: &u64| KernelLaunches { pid: 7, launches: *launches, last_ns: SPAN.end_ns };
        evidence.kernels = counts.iter().map(of_loop).collect();
        evidence
    }

    fn steps(evidence: &Evidence) -> Option<u64> {
        let period = rarest_kernel(evidence, 7, SPAN)?;
        match period.counted_by {
            Some(CountedBy::Total(count)) => Some(count),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kernels_that_come_once_in_a_step_count_the_steps() {
        // Embedding and head once, the kernels of eight layers eight times, one of them twice in a layer.
        let mut evidence = launched(&[100, 103, 800, 801, 799, 1_600]);
        assert_eq!(steps(&evidence), Some(1_000));
        // What initialised the weights, and what another process launches, is no part of it.
        evidence.kernels.push(KernelLaunches { pid: 7, launches: 60, last_ns: SPAN.start_ns });
        evidence.kernels.push(KernelLaunches { pid: 8, launches: 60, last_ns: SPAN.end_ns });
        assert_eq!(steps(&evidence), Some(1_000));
    }

    #[test]
    fn where_kernels_do_not_tell_there_are_no_steps() {
        // Layers alone; one kernel for a line of a log; too few; one kernel; none.
        for counts in [&[800, 801, 1_600][..], &[60, 800, 820, 1_600], &[10, 10, 80], &[1_000], &[]] {
            assert_eq!(steps(&launched(counts)), None, "{counts:?}");
        }
    }
}
