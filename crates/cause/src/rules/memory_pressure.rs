//! A GPU whose memory is nearly full.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::Draft;
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity, units};

pub(super) const RULE: Rule = Rule {
    name: "memory_pressure",
    about: "a GPU whose memory is nearly full, and which process uses most of it",
    causes: &[Cause::GpuMemory],
    threshold: "97% of its memory in use: caching allocators take 90% and more by design, and the driver keeps the last percent",
    refuted_by: "`SELECT memory_used_bytes, memory_total_bytes FROM gpu_samples` below that",
    find,
};

const FULL_PCT: f64 = 97.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for gpu in &case.evidence.gpus {
        let (Some(used), Some(total)) = (gpu.memory_used_bytes, gpu.memory_total_bytes) else { continue };
        if percent(used, total) < FULL_PCT {
            continue;
        }
        let mut attribution = Attribution::default();
        attribution.add(Cause::GpuMemory, 1);
        attribution.note(
            Cause::GpuMemory,
            format!(
                "{} of {} in use on GPU {} ({})",
                units::size(used),
                units::size(total),
                gpu.gpu,
                gpu.name
            ),
        );
        if let Some((pid, bytes)) = gpu.largest {
            attribution.note(Cause::GpuMemory, format!("{} uses {}", case.name(pid), units::size(bytes)));
            let comm = case.comm(pid);
            let share = Share { comm, pid: Some(pid), ns: 1, count: 1, ..Share::default() };
            attribution.blame(Cause::GpuMemory, Who::Process(pid), share);
        }
        drafts.push(Draft {
            severity: Some(Severity::Low),
            title: format!("the memory of GPU {} is {:.0}% full", gpu.gpu, percent(used, total)),
            fixes: vec![
                "make batches smaller, or free what is not needed: the next allocation may fail".into(),
            ],
            sql: format!(
                "SELECT timestamp_ns, memory_used_bytes, memory_total_bytes FROM gpu_samples WHERE gpu = {}",
                gpu.gpu
            ),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}
