//! The ledger of idle GPUs: how long a process left its GPU without work, and what its launching thread did meanwhile.

use crate::bills::Bills;
use crate::case::Case;
use crate::severity::percent;
use gpuwhy_model::{Cause, CauseShare, Span};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Idle {
    pub pid: u32,
    pub process: Option<String>,
    pub rank: Option<i32>,
    pub window: Span,
    pub wall_ms: f64,
    /// Bounds of the share of the time in which its streams had work; nothing where no stream was followed.
    pub busy_lower_pct: Option<f64>,
    pub busy_upper_pct: Option<f64>,
    /// How long its streams had no work at least.
    pub starved_ms: Option<f64>,
    /// What the thread that launches did instead: of the time its streams were empty, where that is known, else of all the
    /// time in which it did not launch. Shares sum to 100.
    pub causes: Vec<CauseShare>,
}

/// One for each process that drives a GPU.
pub(crate) fn idle(case: &Case<'_>) -> Vec<Idle> {
    case.pids().filter_map(|pid| of_process(case, pid)).collect()
}

fn of_process(case: &Case<'_>, pid: u32) -> Option<Idle> {
    let thread = case.main_thread(pid)?;
    let mut instead = thread.waits.only(|cause| cause != Cause::GpuWait);
    // Waits through others are told by what kept those.
    for share in thread.taken.shares(|_| None) {
        let more = (share.ms * 1e6) as u64;
        let known = instead.ns(share.class);
        if more > known {
            for idle in [Cause::LockFutex, Cause::IoFile, Cause::NetWait] {
                let left = more - instead.ns(share.class).max(known);
                instead.rename(idle, share.class, left);
            }
        }
    }
    instead.add(Cause::CpuSelf, thread.computing_ns());
    for op in case.ops_of(pid) {
        for share in op.excess.only(|cause| cause != Cause::GpuWait).shares(|_| None) {
            instead.add(share.class, (share.ms * 1e6) as u64);
        }
    }
    let (window, lower, upper) = case.streams(pid);
    // Windows are whole ones: the first begins before the process does, the last ends after it.
    let wall = case.wall(pid);
    let window = window.min(wall.ns());
    let (lower, upper) = (lower.min(window), upper.min(window));
    let starved = (window > 0).then(|| window - upper);
    let causes = match starved {
        Some(starved) => scaled(&instead, starved),
        // Nobody did more than the process had time for.
        None if instead.total_ns() > wall.ns() => scaled(&instead, wall.ns()),
        None => instead,
    };
    let process = case.process(pid);
    Some(Idle {
        pid,
        process: process.map(|process| process.comm.clone()),
        rank: process.and_then(|process| process.rank),
        window: wall,
        wall_ms: wall.ns() as f64 / 1e6,
        busy_lower_pct: starved.map(|_| percent(lower, window)),
        busy_upper_pct: starved.map(|_| percent(upper, window)),
        starved_ms: starved.map(|ns| ns as f64 / 1e6),
        causes: causes.shares(|id| case.cgroup(id)),
    })
}

/// The same shares of another amount.
fn scaled(bills: &Bills, ns: u64) -> Bills {
    let total = bills.total_ns();
    let mut scaled = bills.clone();
    if total > ns {
        for share in bills.shares(|_| None) {
            let keep = (share.share_pct / 100.0 * ns as f64) as u64;
            scaled.take(share.class, ((share.ms * 1e6) as u64).saturating_sub(keep));
        }
    } else {
        scaled.add(Cause::Unknown, ns - total);
    }
    scaled
}
