//! Calls that are there to wait for the GPU, and copies that have to: whose wait it is.

use super::Rule;
use super::slow_calls::{sql, waits_for_gpu};
use crate::case::Case;
use crate::draft::{Draft, cause_in_words, in_short, place_of, seconds};
use crate::fixes::fixes;
use crate::op_ledger::OpLedger;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::{Cause, Family};

pub(super) const RULE: Rule = Rule {
    name: "gpu_waits",
    about: "time the host waits for queued GPU work, and what took time from it meanwhile",
    causes: &[Cause::GpuWait, Cause::CopyPcie],
    threshold: "10% of the time in which the process used the GPU: below it waiting cannot be what limits it. Low, as the GPU \
                works meanwhile; what others took from the calls counts as in `slow_calls`",
    refuted_by: "the GPU idle while the call waits: `SELECT * FROM gpu_time` with `busy_upper_ns` far below `window_ns`",
    find,
};

const LEAST_PCT: f64 = 10.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.ops
        .iter()
        .filter(|op| op.info.waits_for_gpu && op.info.family != Family::Copy)
        .filter_map(|op| draft(case, op))
        .collect()
}

fn draft(case: &Case<'_>, op: &OpLedger<'_>) -> Option<Draft> {
    let pid = op.sums.pid;
    let wall = case.wall(pid).ns();
    let mut bills = op.excess.clone();
    let varying = bills.take(Cause::GpuWait, u64::MAX);
    bills.add(Cause::GpuWait, op.gpu_wait_ns.max(varying));
    let taken = op.taken_ns();
    if percent(bills.ns(Cause::GpuWait), wall) < LEAST_PCT && !matters(taken, wall) {
        return None;
    }
    let main = bills.main()?;
    let place = place_of(case, pid, &op.sums.op);
    let at = in_short(&place).map_or_else(String::new, |line| format!(" at {line}"));
    let times = case.evidence.gpu_times.iter().filter(|time| time.pid == pid);
    let (window, busy) = times.fold((0, 0), |(window, busy), time| {
        (window + time.window_ns, busy + time.busy_upper_ns.min(time.window_ns))
    });
    if bills.ns(Cause::GpuWait) > 0 {
        let each = bills.ns(Cause::GpuWait) / op.sums.count.max(1);
        bills
            .say(Cause::GpuWait, format!("{} calls waited {} each on average", op.sums.count, seconds(each)));
        if window > 0 {
            bills.say(
                Cause::GpuWait,
                format!(
                    "its streams were busy at most {:.0}% of the time: the rest passed between a wait and the next launch",
                    percent(busy, window)
                ),
            );
        }
    }
    let title = match main {
        Cause::GpuWait => waits_for_gpu(case, op, bills.ns(main), &at),
        _ => format!(
            "{} of {}{at} lost {} ({:.0}% of its time): {}",
            op.sums.op,
            case.name(pid),
            seconds(taken),
            percent(taken, wall),
            cause_in_words(case, &bills, main)
        ),
    };
    Some(Draft {
        severity: Some(of_taken(taken, wall)),
        title,
        fixes: fixes(case, pid, &bills),
        sql: sql(pid, &op.sums.op),
        op: Some(op.sums.op.clone()),
        pid: Some(pid),
        bills,
        place,
        ..Draft::default()
    })
}
