//! One finding for one problem: what the path of a process and the calls of an operation both tell is told once.

use gpuwhy_model::{Finding, Severity};

/// Rules about the calls of an operation.
pub(crate) const OF_CALLS: [&str; 4] = ["slow_calls", "gpu_waits", "copies", "recaptures"];
const OF_PATH: &str = "critical_path";
/// The calls must have this share of what the path has: else they are a part of it, and another matter.
const SAME: f64 = 0.5;

/// Joins each finding of a path with that of the operation in which its time was spent.
pub(crate) fn join_twins(findings: &mut Vec<Finding>) {
    let mut at = 0;
    while at < findings.len() {
        let twin = (findings[at].rule == OF_PATH).then(|| twin_of(&findings[at], findings)).flatten();
        let Some(twin) = twin else {
            at += 1;
            continue;
        };
        let path = findings.remove(at);
        let twin = if twin > at { twin - 1 } else { twin };
        findings[twin] = joined(path, &findings[twin]);
        // What was behind it has moved up.
    }
}

fn twin_of(path: &Finding, findings: &[Finding]) -> Option<usize> {
    let is_twin = |other: &Finding| {
        OF_CALLS.contains(&other.rule.as_str())
            && other.pid == path.pid
            && other.phase == path.phase
            && other.class() == path.class()
            && other.impact.excess_ms >= path.impact.excess_ms * SAME
    };
    let is_same_op = |other: &Finding| path.op.is_some() && other.op == path.op;
    let twins = || (0..findings.len()).filter(|at| is_twin(&findings[*at]));
    twins().find(|at| is_same_op(&findings[*at])).or_else(|| twins().next())
}

/// The operation's numbers and evidence, the path's severity and saving, and the culprit and the line of whichever has one.
fn joined(path: Finding, calls: &Finding) -> Finding {
    let other = |finding: &Finding| {
        let by = finding.causes.first().and_then(|cause| cause.by.first());
        by.is_some_and(|by| by.pid != finding.pid || by.pid.is_none())
    };
    let severity = path.severity.min(calls.severity);
    let of_either = path.by_design.clone().or_else(|| calls.by_design.clone());
    let by_design = of_either.filter(|_| severity == Severity::Low);
    if other(&path) && !other(calls) {
        return Finding { severity, by_design, op: calls.op.clone(), ..path };
    }
    let mut place = calls.place.clone();
    if place.python.is_empty() && !path.place.python.is_empty() {
        place.python = path.place.python;
    }
    let mut causes = calls.causes.clone();
    if let (Some(first), Some(of_path)) = (causes.first_mut(), path.causes.into_iter().next())
        && first.by.is_empty()
    {
        first.by = of_path.by;
    }
    Finding {
        severity,
        by_design,
        place,
        causes,
        saves_ms_per_step: path.saves_ms_per_step,
        saves_ms_interval: path.saves_ms_interval,
        ..calls.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Cause, CauseShare, Culprit, Impact, Place, Span};

    fn finding(rule: &str, class: Cause, excess_ms: f64, severity: Severity) -> Finding {
        let share =
            CauseShare { class, share_pct: 100.0, ms: excess_ms, by: Vec::new(), evidence: Vec::new() };
        Finding {
            id: rule.into(),
            rule: rule.into(),
            severity,
            title: rule.into(),
            op: (rule != OF_PATH).then(|| "cudaMalloc".into()),
            pid: Some(7),
            process: None,
            cgroup: None,
            rank: None,
            node: None,
            window: Span::default(),
            impact: Impact { excess_ms, ..Impact::default() },
            causes: vec![share],
            explained_pct: 100.0,
            place: Place::default(),
            fixes: Vec::new(),
            refuted_by: String::new(),
            sql: String::new(),
            steps: Vec::new(),
            phase: None,
            saves_ms_per_step: (rule == OF_PATH).then_some(3.0),
            saves_ms_interval: (rule == OF_PATH).then_some([2.0, 4.0]),
            by_design: None,
        }
    }

    #[test]
    fn calls_and_path_with_the_same_cause_are_one() {
        let mut path = finding(OF_PATH, Cause::GpuAlloc, 100.0, Severity::High);
        path.place.python = vec!["train.py:3 step".into()];
        let mut all = vec![path, finding("slow_calls", Cause::GpuAlloc, 80.0, Severity::Low)];
        join_twins(&mut all);
        let [one] = all.try_into().unwrap();
        assert_eq!(
            (one.rule.as_str(), one.severity, one.saves_ms_per_step, one.saves_ms_interval),
            ("slow_calls", Severity::High, Some(3.0), Some([2.0, 4.0]))
        );
        assert_eq!(one.place.python, ["train.py:3 step"]);
    }

    #[test]
    fn a_small_part_or_another_cause_stays_apart() {
        let path = || finding(OF_PATH, Cause::GpuAlloc, 100.0, Severity::High);
        for other in [
            finding("slow_calls", Cause::GpuAlloc, 10.0, Severity::Low),
            finding("slow_calls", Cause::CpuSelf, 100.0, Severity::Low),
            finding("memory_growth", Cause::GpuAlloc, 100.0, Severity::Low),
        ] {
            let mut all = vec![other, path()];
            join_twins(&mut all);
            assert_eq!(all.len(), 2);
        }
    }

    #[test]
    fn of_two_operations_with_the_same_cause_each_is_joined_with_its_own_part() {
        let of = |rule: &str, op: &str, excess_ms| Finding {
            op: Some(op.into()),
            ..finding(rule, Cause::GpuWait, excess_ms, Severity::Low)
        };
        let mut all = vec![
            of("gpu_waits", "cudaDeviceSynchronize", 90.0),
            of("slow_calls", "cudaGraphLaunch", 80.0),
            of(OF_PATH, "cudaGraphLaunch", 100.0),
            of(OF_PATH, "cudaDeviceSynchronize", 100.0),
        ];
        join_twins(&mut all);
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|one| one.saves_ms_per_step == Some(3.0)), "{all:?}");
    }

    #[test]
    fn a_culprit_that_only_the_path_knows_is_named() {
        let mut path = finding(OF_PATH, Cause::GpuWait, 100.0, Severity::High);
        path.causes[0].by = vec![Culprit { pid: Some(9), ..Culprit::default() }];
        let mut all = vec![finding("gpu_waits", Cause::GpuWait, 100.0, Severity::Low), path];
        join_twins(&mut all);
        let [one] = all.try_into().unwrap();
        assert_eq!((one.rule.as_str(), one.op.as_deref()), (OF_PATH, Some("cudaMalloc")));
    }
}
