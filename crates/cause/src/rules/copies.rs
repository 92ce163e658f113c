//! Copies between host and device: time that the bytes themselves take, and time spent waiting for the GPU to get there.

use super::Rule;
use super::slow_calls::{lost, of_calls, waits_for_gpu};
use crate::case::Case;
use crate::draft::{Draft, at, place_of};
use crate::op_ledger::OpLedger;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::{Cause, Family, units};

pub(super) const RULE: Rule = Rule {
    name: "copies",
    about: "copies that dominate a process's time; a copy of few bytes that takes long waits for the GPU, not for PCIe",
    causes: &[Cause::CopyPcie, Cause::GpuWait],
    threshold: "10% of the time in which the process used the GPU. Bytes explain time at 1 GB/s and faster, which pageable \
                memory reaches on every link; what is slower than that waited for queued work. Low, as the program asked for it",
    refuted_by: "the same loop as slow with the copies left out, or pinned",
    find,
};

const MIN_PCT: f64 = 10.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.ops.iter().filter(|op| op.info.family == Family::Copy).filter_map(|op| draft(case, op)).collect()
}

fn draft(case: &Case<'_>, op: &OpLedger<'_>) -> Option<Draft> {
    let pid = op.sums.pid;
    let wall = case.wall(pid).ns();
    let taken = op.taken_ns();
    let mut attribution = op.excess.only(|cause| op.is_taken(cause));
    // The pages of its host memory come with the copy: whoever copies less, or into memory that stays, has fewer of both.
    let faulted = attribution.ns(Cause::MemFault);
    attribution.rename(Cause::MemFault, Cause::CopyPcie, faulted);
    let own_ns = op.sums.blame.oncpu_ns.max(op.gpu_wait_ns);
    let by_bytes = own_ns.min(op.sums.bytes_ns());
    attribution.add(Cause::CopyPcie, by_bytes);
    if op.info.waits_for_gpu {
        attribution.add(Cause::GpuWait, own_ns - by_bytes);
    }
    let own_pct = percent(attribution.ns(Cause::CopyPcie) + attribution.ns(Cause::GpuWait), wall);
    if own_pct < MIN_PCT && !matters(taken, wall) {
        return None;
    }
    let main = attribution.main()?;
    let place = place_of(case, pid, &op.sums.op);
    let at = at(&place);
    let rate = op.sums.bytes as f64 / (own_ns.max(1) as f64 / 1e9);
    attribution.note(
        Cause::CopyPcie,
        format!(
            "{} copies of {} each, {} in all, {}/s",
            op.sums.calls(),
            units::size(op.sums.bytes / op.sums.count.max(1)),
            units::size(op.sums.bytes),
            units::size(rate as u64)
        ),
    );
    if faulted * 10 > attribution.ns(Cause::CopyPcie) {
        let share =
            format!("{} of it in page faults: their host memory is new each time", units::duration(faulted));
        attribution.note(Cause::CopyPcie, share);
    }
    attribution.note(
        Cause::GpuWait,
        format!(
            "{} calls of {} each: that few bytes take no such time, the queued work does",
            op.sums.calls(),
            units::size(op.sums.bytes / op.sums.count.max(1))
        ),
    );
    let title = match main {
        Cause::CopyPcie => format!(
            "{} spends {:.0}% of its time copying: {} in {}{at}",
            case.name(pid),
            percent(attribution.ns(main), wall),
            units::size(op.sums.bytes),
            op.sums.op
        ),
        Cause::GpuWait => waits_for_gpu(case, op, attribution.ns(main), &at),
        _ => lost(case, op, taken, &attribution, &at),
    };
    let by_design = match main {
        Cause::GpuWait => Some("GPU bound"),
        Cause::CopyPcie => Some("copies"),
        _ => None,
    };
    let severity = Some(of_taken(op.lost_ns(), wall));
    Some(Draft { severity, by_design, title, ..of_calls(case, op, attribution, place) })
}
