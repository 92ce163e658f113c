//! From evidence to findings, to the ledger of idle GPUs, and to what the tails are made of.

use crate::case::{Case, is_kernel_thread};
use crate::evidence::Evidence;
use crate::idle::{Idle, idle};
use crate::path::{ProcessPath, StepTree, trees};
use crate::ranks::join_ranks;
use crate::rules::RULES;
use crate::servers::{ServerReport, servers};
use crate::severity::percent;
use crate::steps::report_steps;
use crate::tail::{Tail, tails};
use crate::twins::{OF_CALLS, join_twins};
use gpuwhy_model::{Cause, Finding, Severity};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Explanation {
    /// The worst first.
    pub findings: Vec<Finding>,
    pub idle: Vec<Idle>,
    pub tail: Vec<Tail>,
    pub servers: Vec<ServerReport>,
    pub steps: Vec<StepTree>,
    /// Where a path left what is recorded, in sentences for coverage.
    pub left: Vec<String>,
}

pub fn explain(evidence: &Evidence) -> Explanation {
    let case = Case::new(evidence);
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule.findings(&case)).collect();
    join_twins(&mut findings);
    join_ranks(&case, &mut findings);
    findings.sort_by(worst_first);
    number_twins(&mut findings);
    report_steps(evidence, &mut findings);
    let servers = servers(evidence, &findings);
    let (steps, left) = (trees(&case), left(&case));
    Explanation { findings, idle: idle(&case), tail: tails(evidence), servers, steps, left }
}

/// A loop that waits for others of whom nothing is recorded: what they did is not known.
fn left(case: &Case<'_>) -> Vec<String> {
    const MIN_SHARE_PCT: f64 = 3.0;
    let of_path = |path: &ProcessPath| {
        let loop_ns = path.phases.repeats.ns();
        let is_worth = move |(pid, ns): &(&u32, &u64)| {
            percent(**ns, loop_ns) >= MIN_SHARE_PCT && !is_kernel_thread(&case.name(**pid))
        };
        let line = move |(pid, ns): (&u32, &u64)| {
            format!(
                "path: {:.0}% of the loop of {} waits for {}, whose own waits are not recorded",
                percent(*ns, loop_ns),
                case.name(path.pid),
                case.name(*pid)
            )
        };
        path.left_to.iter().filter(is_worth).map(line).collect::<Vec<_>>()
    };
    case.paths.iter().flat_map(of_path).collect()
}

impl Explanation {
    /// Adds what was found of the start, behind what is wrong with the loop: a start is no alarm of the loop. Where nothing is
    /// wrong with it, what lost most comes first.
    pub fn add_start(&mut self, start: Explanation) {
        let of_calls = start.findings.into_iter().filter(|finding| OF_CALLS.contains(&finding.rule.as_str()));
        let of_start = of_calls.map(|finding| Finding {
            severity: Severity::Low,
            id: format!("start/{}", finding.id),
            title: format!("at its start: {}", finding.title),
            ..finding
        });
        self.findings.extend(of_start);
        number_twins(&mut self.findings);
        self.findings.sort_by(worst_first);
    }
}

fn worst_first(a: &Finding, b: &Finding) -> Ordering {
    a.severity
        .cmp(&b.severity)
        .then(is_of_job(b).cmp(&is_of_job(a)))
        .then(b.impact.excess_ms.total_cmp(&a.impact.excess_ms))
        .then_with(|| a.id.cmp(&b.id))
}

/// Of a whole job: what keeps one rank keeps all of them.
fn is_of_job(finding: &Finding) -> bool {
    let class = finding.class();
    matches!(class, Some(Cause::RankStraggler | Cause::RankHang))
}

/// Findings of the same kind about the same operation get a number, so that each has an id of its own.
fn number_twins(findings: &mut [Finding]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for finding in findings {
        let count = seen.entry(finding.id.clone()).or_default();
        *count += 1;
        if *count > 1 {
            finding.id = format!("{}#{count}", finding.id);
        }
    }
}
