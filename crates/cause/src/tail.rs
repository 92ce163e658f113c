//! What the tails of operations are made of.

use crate::evidence::Evidence;
use crate::severity::percent;
use gpuwhy_model::{Cause, Part};
use serde::Serialize;
use std::collections::BTreeMap;

/// An operation's calls at and above a quantile, by what their time was spent on.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

#[derive(Debug, Clone, PartialEq, Serialize)]
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
            let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
            for (part, ns) in tail.blame.parts() {
                // Who had the CPU is not told by call; somebody had.
                let by = u32::from(part == Part::Runnable);
                *causes.entry(Cause::of_part(op, part, by)).or_default() += ns;
            }
            let total: u64 = causes.values().sum();
            let mut by_cause: Vec<TailShare> = causes
                .into_iter()
                .map(|(class, ns)| TailShare { class, share_pct: percent(ns, total) })
                .collect();
            by_cause.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct).then(a.class.cmp(&b.class)));
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
