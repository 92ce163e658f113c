//! Operations of a trace that another tool has recorded: what its rows support, and no more.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, seconds};
use gpuwhy_model::{Cause, Impact, Severity};

pub(super) const RULE: Rule = Rule {
    name: "foreign_calls",
    about: "slow calls in another tool's trace, and how much of their time the calling thread was off the CPU by its scheduler rows",
    causes: &[Cause::Unknown, Cause::GpuColdstart],
    threshold: "slow calls with 5 ms in all. Low: stored rows are a biased sample and there is no blame clock, so no cause is claimed but for the first launch of a process, which is a cold start",
    refuted_by: "a trace made with gpuwhy, which measures what the time of every call was spent on",
    find,
};

const MIN_NS: u64 = 5_000_000;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for op in case.evidence.foreign.iter().filter(|op| op.slow_ns >= MIN_NS) {
        let mut attribution = Attribution::default();
        attribution.add(Cause::GpuColdstart, op.cold_ns);
        attribution.note(
            Cause::GpuColdstart,
            "the first launch of the process in this file: it loads what it needs".into(),
        );
        attribution.add(Cause::Unknown, op.slow_ns.saturating_sub(op.cold_ns));
        let off_cpu = match op.off_cpu_pct {
            Some(pct) => format!(
                "off-CPU time of the calling thread covers {pct:.0}% of its slow time ({} of {})",
                seconds(op.off_cpu_ns),
                seconds(op.slow_ns)
            ),
            None => "the file does not say when the calling threads were off the CPU".into(),
        };
        attribution.note(Cause::Unknown, off_cpu.clone());
        attribution.note(
            Cause::Unknown,
            "stored rows are a biased sample: p50 and p99 are of stored rows, not of all calls".into(),
        );
        drafts.push(Draft {
            severity: Some(Severity::Low),
            title: format!(
                "{} of {}: {} slow calls took {}; {off_cpu}; the rest is not explained by this file",
                op.op,
                op.process.clone().map_or_else(|| case.name(op.pid), |name| format!("{name}[{}]", op.pid)),
                op.slow_calls,
                seconds(op.slow_ns)
            ),
            impact: Impact {
                calls: op.calls,
                slow_calls: op.slow_calls,
                p50_us: op.p50_ns as f64 / 1e3,
                p99_us: op.p99_ns as f64 / 1e3,
                max_us: op.max_ns as f64 / 1e3,
                ..Impact::default()
            },
            op: Some(op.op.clone()),
            pid: Some(op.pid),
            fixes: vec!["record the workload with gpuwhy trace to learn the cause".into()],
            sql: format!("SELECT timestamp_ns, duration_ns, tid FROM events WHERE op = '{}' ORDER BY duration_ns DESC LIMIT 20", op.op.replace('\'', "''")),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}
