//! The CPU cannot launch fast enough: tiny kernels, and the host never waits for the GPU.

use super::Rule;
use crate::case::Case;
use crate::draft::{Draft, at, place_of};
use crate::fixes::fixes;
use crate::severity::percent;
use gpuwhy_model::{Cause, Family, Severity, units};

pub(super) const RULE: Rule = Rule {
    name: "launch_bound",
    about: "the host launches all the time and never waits for the GPU: the host is the limit",
    causes: &[Cause::LaunchBound],
    threshold: "2,000 launches a second, 70% of the time spent launching or computing between launches, below 10% waiting for \
                the GPU, and the GPU's own counter, where there is one, below 80%. Low, as the program is built that way",
    refuted_by: "the host waiting for the GPU in a synchronisation, or the GPU's `sm_pct` near 100",
    find,
};

const LEAST_RATE: f64 = 2_000.0;
const LEAST_BUSY_PCT: f64 = 70.0;
const MOST_WAIT_PCT: f64 = 10.0;
const MOST_SM_PCT: f64 = 80.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.pids().filter_map(|pid| draft(case, pid)).collect()
}

fn draft(case: &Case<'_>, pid: u32) -> Option<Draft> {
    let wall = case.wall(pid).ns();
    let launches: u64 =
        case.ops_of(pid).filter(|op| op.info.family == Family::Launch).map(|op| op.sums.count).sum();
    let rate = launches as f64 / (wall.max(1) as f64 / 1e9);
    let waited: u64 = case.ops_of(pid).map(|op| op.gpu_wait_ns).sum();
    let gpu_is_used = case.evidence.gpus.iter().any(|gpu| gpu.sm_pct.is_some_and(|pct| pct > MOST_SM_PCT));
    if rate < LEAST_RATE || percent(waited, wall) > MOST_WAIT_PCT || gpu_is_used {
        return None;
    }
    let op = case.main_op(pid, Family::Launch)?;
    let thread = case.main_thread(pid)?;
    // What happens once is no limit of the loop.
    let cold = op.excess.ns(Cause::GpuColdstart);
    let launching = op.sums.blame.oncpu_ns.saturating_sub(cold);
    let own = thread.computing_ns() + launching;
    if percent(own, thread.span.ns().saturating_sub(cold)) < LEAST_BUSY_PCT {
        return None;
    }
    let mut bills = op.excess.only(|cause| op.is_taken(cause));
    bills.add(Cause::LaunchBound, own);
    bills.say(
        Cause::LaunchBound,
        format!(
            "{} launches a second, {} each in the call and {} between calls; the host waited for the GPU {:.0}% of the time",
            units::count(rate as u64),
            units::duration(launching / op.sums.count.max(1)),
            units::duration(thread.computing_ns() / op.sums.count.max(1)),
            percent(waited, wall)
        ),
    );
    let place = place_of(case, pid, &op.sums.op);
    let at = at(&place);
    Some(Draft {
        severity: Some(Severity::Low),
        title: format!(
            "{} launches {} kernels a second{at} and does not wait for the GPU: launching is the limit",
            case.name(pid),
            units::count(rate as u64)
        ),
        fixes: fixes(case, pid, &bills),
        sql: format!("SELECT * FROM gpu_time WHERE pid = {pid}"),
        op: Some(op.sums.op.clone()),
        pid: Some(pid),
        bills,
        place,
        ..Draft::default()
    })
}
