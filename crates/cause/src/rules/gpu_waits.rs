//! Calls that are there to wait for the GPU, and copies that have to: whose wait it is.

use super::Rule;
use super::slow_calls::{lost, of_calls, waits_for_gpu};
use crate::case::Case;
use crate::draft::{Draft, at, place_of, seconds};
use crate::op_ledger::OpLedger;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::{Cause, Family, Severity};

pub(super) const RULE: Rule = Rule {
    name: "gpu_waits",
    about: "time the host waits for queued GPU work, and what took time from it meanwhile",
    causes: &[Cause::GpuWait, Cause::CopyPcie],
    threshold: "10% of the time in which the process used the GPU: below it waiting cannot be what limits it. Low, as the GPU \
                works meanwhile; what others took from the calls counts as in `slow_calls`, and where that is what makes calls longer \
                than usual, the usual wait is left out",
    refuted_by: "the GPU idle while the call waits: `SELECT * FROM gpu_time` with `busy_upper_ns` far below `window_ns`",
    find,
};

const MIN_PCT: f64 = 10.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.ops
        .iter()
        .filter(|op| op.info.waits_for_gpu && op.info.family != Family::Copy)
        .filter_map(|op| draft(case, op))
        .collect()
}

/// Whether what was taken is what makes calls longer than they usually are. Then the usual wait is no part of the matter.
/// Where it is in every call alike, nobody can tell it from what is usual, and all of the time is divided.
fn stands_out(op: &OpLedger<'_>, taken_ns: u64) -> bool {
    op.sums.beyond_median_ns() >= taken_ns / 2
}

fn draft(case: &Case<'_>, op: &OpLedger<'_>) -> Option<Draft> {
    let pid = op.sums.pid;
    let wall = case.wall(pid).ns();
    let taken = op.taken_ns();
    if percent(op.gpu_wait_ns, wall) < MIN_PCT && !matters(taken, wall) {
        return None;
    }
    let mut attribution = op.excess.clone();
    if of_taken(taken, wall) == Severity::Low || !stands_out(op, taken) {
        let varying = attribution.take(Cause::GpuWait, u64::MAX);
        attribution.add(Cause::GpuWait, op.gpu_wait_ns.max(varying));
    }
    let main = attribution.main()?;
    let place = place_of(case, pid, &op.sums.op);
    let at = at(&place);
    let (window, _, busy) = case.streams(pid);
    if attribution.ns(Cause::GpuWait) > 0 {
        let each = attribution.ns(Cause::GpuWait) / op.sums.count.max(1);
        attribution.note(
            Cause::GpuWait,
            format!("{} calls waited {} each on average", op.sums.calls(), seconds(each)),
        );
        if window > 0 {
            attribution.note(
                Cause::GpuWait,
                format!(
                    "its streams were busy at most {:.0}% of the time: the rest passed between a wait and the next launch",
                    percent(busy, window)
                ),
            );
        }
    }
    let title = match main {
        Cause::GpuWait => waits_for_gpu(case, op, attribution.ns(main), &at),
        _ => lost(case, op, taken, &attribution, &at),
    };
    let by_design = (main == Cause::GpuWait).then_some("GPU bound");
    let severity = Some(of_taken(op.lost_ns(), wall));
    Some(Draft { severity, by_design, title, ..of_calls(case, op, attribution, place) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{AttributedTime, OpSums};
    use gpuwhy_model::{Histogram, Layer, OpId, OpInfo, Role};

    fn stands_out_in(calls: &[u64], taken_ns: u64) -> bool {
        let mut hist = Histogram::default();
        calls.iter().for_each(|ns| hist.record(*ns));
        let sums = OpSums {
            op: "cudaStreamSynchronize".into(),
            count: calls.len() as u64,
            sum_ns: calls.iter().sum(),
            max_ns: *calls.iter().max().unwrap(),
            hist,
            ..OpSums::default()
        };
        let info = OpInfo {
            id: OpId(1),
            name: sums.op.clone(),
            layer: Layer::Cuda,
            family: Family::Sync,
            waits_for_gpu: true,
            role: Role::None,
        };
        stands_out(&OpLedger::new(&sums, &info, &[] as &[&AttributedTime], &[]), taken_ns)
    }

    #[test]
    fn a_neighbour_between_short_waits_stands_out_and_one_behind_every_long_wait_does_not() {
        let mut calls = vec![1_000_000; 75];
        calls.extend([4_000_000; 25]);
        assert!(stands_out_in(&calls, 75_000_000));
        assert!(!stands_out_in(&[20_000_000; 100], 1_000_000_000));
    }
}
