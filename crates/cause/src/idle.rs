//! The ledger of idle GPUs: how long a process left its GPU without work in its loop, and what its
//! critical path was in meanwhile.

use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::path::ProcessPath;
use crate::severity::percent;
use gpuwhy_model::{Cause, CauseShare, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    pub pid: u32,
    pub process: Option<String>,
    pub rank: Option<i32>,
    pub window: Span,
    pub wall_ms: f64,
    /// Bounds of the share of the time in which its streams had work; nothing where no stream was followed, or the GPU's counter
    /// contradicts them.
    pub busy_lower_pct: Option<f64>,
    pub busy_upper_pct: Option<f64>,
    /// Between the bounds: what the GPU's own counter says.
    pub busy_pct: Option<f64>,
    /// How long its GPU was idle in the loop, by the counter; by the upper bound where there is none.
    pub starved_ms: Option<f64>,
    /// What the critical path was in meanwhile. Shares sum to 100.
    pub causes: Vec<CauseShare>,
}

/// The counter is read a few times a second, bounds are of windows of half a second.
const COUNTER_ERROR_PCT: f64 = 5.0;

/// One for each process with a loop.
pub(crate) fn idle(case: &Case<'_>) -> Vec<Idle> {
    case.paths.iter().map(|path| of_process(case, path)).collect()
}

fn of_process(case: &Case<'_>, path: &ProcessPath) -> Idle {
    let window = path.phases.repeats;
    let mut along = Attribution::default();
    for (key, part) in &path.loop_parts {
        along.add(key.class, part.ns);
        for ((pid, tid), ns) in &part.by {
            let comm = case.evidence.activity.threads.get(tid).map(|thread| thread.comm.clone());
            let share = Share {
                comm: comm.unwrap_or_default(),
                pid: Some(*pid),
                ns: *ns,
                count: 1,
                ..Share::default()
            };
            along.blame(key.class, Who::Process(*pid), share);
        }
    }
    let (followed, lower, upper) = case.streams(path.pid);
    let followed = followed.min(window.ns());
    let bounds = (followed > 0)
        .then(|| (percent(lower.min(followed), followed), percent(upper.min(followed), followed)));
    // Copies run on another engine than the counter's, and work that waits for the host counts as work of its stream: bounds that
    // the counter contradicts say nothing.
    let agrees = |(lower, upper): &(f64, f64)| {
        path.busy_pct.is_none_or(|pct| (lower - COUNTER_ERROR_PCT..=upper + COUNTER_ERROR_PCT).contains(&pct))
    };
    let bounds = bounds.filter(agrees);
    // The GPU's own counter is the estimate; where it has none, what the streams had no work for.
    let idle_pct = path.busy_pct.map(|pct| 100.0 - pct).or(bounds.map(|(_, upper)| 100.0 - upper));
    let idle_ns = idle_pct.map(|pct| (window.ns() as f64 * pct.max(0.0) / 100.0) as u64);
    // While the host waits for the GPU, the GPU works: that is no part of its idle time.
    let along = along.only(|cause| cause != Cause::GpuWait);
    let causes = idle_ns.map_or_else(|| along.clone(), |ns| scaled(&along, ns));
    let process = case.process(path.pid);
    Idle {
        pid: path.pid,
        process: process.map(|process| process.comm.clone()),
        rank: process.and_then(|process| process.rank),
        window,
        wall_ms: window.ns() as f64 / 1e6,
        busy_pct: path.busy_pct,
        busy_lower_pct: bounds.map(|(lower, _)| lower),
        busy_upper_pct: bounds.map(|(_, upper)| upper),
        starved_ms: idle_ns.map(|ns| ns as f64 / 1e6),
        causes: causes.shares(|id| case.cgroup(id)),
    }
}

/// The same shares of another amount.
fn scaled(attribution: &Attribution, ns: u64) -> Attribution {
    let total = attribution.total_ns();
    let mut scaled = attribution.clone();
    if total > ns {
        for share in attribution.shares(|_| None) {
            let keep = (share.share_pct / 100.0 * ns as f64) as u64;
            scaled.take(share.class, ((share.ms * 1e6) as u64).saturating_sub(keep));
        }
    } else {
        scaled.add(Cause::Unknown, ns - total);
    }
    scaled
}
