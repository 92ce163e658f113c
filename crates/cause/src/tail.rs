//! What the tails of operations are made of.

use crate::evidence::Evidence;
use crate::severity::percent;
use gpuwhy_model::{Blame, Cause, OpInfo, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An operation's calls at and above a quantile, by what their time was spent on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    pub op: String,
    /// Of one process, with its rank and cgroup, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// As `p99`.
    pub quantile: String,
    pub p_us: f64,
    pub by_cause: Vec<TailShare>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailShare {
    pub class: Cause,
    pub share_pct: f64,
}

pub(crate) fn tails(evidence: &Evidence) -> Vec<Tail> {
    let mut tails: Vec<Tail> = evidence
        .tails
        .iter()
        .map(|tail| {
            let op = evidence.ops.get(&tail.op);
            let by_cause = shares_by_cause(op, &tail.blame)
                .into_iter()
                .map(|(class, share_pct)| TailShare { class, share_pct })
                .collect();
            let process = evidence.processes.iter().rfind(|process| tail.pid == Some(process.pid));
            Tail {
                op: tail.op.clone(),
                pid: tail.pid,
                rank: process.and_then(|process| process.rank),
                cgroup: process.map(|process| process.cgroup.clone()).filter(|path| !path.is_empty()),
                quantile: tail.quantile.clone(),
                p_us: tail.p_ns as f64 / 1e3,
                by_cause,
            }
        })
        .collect();
    tails.sort_by_key(|tail| (tail.pid, tail.op.clone(), tail.quantile.len(), tail.quantile.clone()));
    tails
}

/// What time is as causes, in percent, largest first. Who had the CPU is not told by call; somebody had.
pub fn shares_by_cause(op: Option<&OpInfo>, blame: &Blame) -> Vec<(Cause, f64)> {
    let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
    for (part, ns) in blame.parts() {
        let by = u32::from(part == Part::Runnable);
        let sum = causes.entry(Cause::of_part(op, part, by)).or_default();
        // A damaged file may say any number.
        *sum = sum.saturating_add(ns);
    }
    let total = causes.values().fold(0u64, |total, ns| total.saturating_add(*ns));
    let mut shares: Vec<(Cause, f64)> =
        causes.into_iter().map(|(cause, ns)| (cause, percent(ns, total))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    shares
}
