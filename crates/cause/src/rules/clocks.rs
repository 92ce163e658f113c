//! GPUs that ran slower than they can.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::Draft;
use crate::severity::percent;
use gpuwhy_model::{Cause, Severity};

pub(super) const RULE: Rule = Rule {
    name: "clocks",
    about: "a GPU that lowered its clocks for heat, power or a fault",
    causes: &[Cause::GpuThrottle],
    threshold: "a reason other than idleness in 5% of the samples, and clocks 5% below the highest meanwhile. Power capping by \
                software alone is low: GPUs at full load live there",
    refuted_by: "`SELECT sm_clock_mhz, throttle_reasons FROM gpu_samples` at the highest clock",
    find,
};

const MIN_PCT: f64 = 5.0;
/// Clocks that somebody has set.
const HARMLESS: [&str; 3] = ["application_clocks", "display_clocks", "sync_boost"];
const POWER_CAP: &str = "sw_power_cap";

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for gpu in &case.evidence.gpus {
        let harmful: Vec<(&String, &u64)> =
            gpu.throttled.iter().filter(|(reason, _)| !HARMLESS.contains(&reason.as_str())).collect();
        let Some(samples) = harmful.iter().map(|(_, n)| **n).max() else { continue };
        let (Some(clock), Some(highest)) = (gpu.clock_while_throttled_mhz, gpu.clock_max_mhz) else {
            continue;
        };
        let slower = 1.0 - clock / highest.max(1.0);
        if percent(samples, gpu.samples) < MIN_PCT || slower * 100.0 < MIN_PCT {
            continue;
        }
        let span = case.evidence.span.ns();
        let lost = (span as f64 * samples as f64 / gpu.samples as f64 * slower) as u64;
        let mut attribution = Attribution::default();
        attribution.add(Cause::GpuThrottle, lost.max(1));
        let reasons: Vec<&str> = harmful.iter().map(|(reason, _)| reason.as_str()).collect();
        attribution.note(
            Cause::GpuThrottle,
            format!(
                "GPU {} ({}): {} in {} of {} samples; {clock:.0} MHz meanwhile, {highest:.0} at most",
                gpu.gpu,
                gpu.name,
                reasons.join(", "),
                samples,
                gpu.samples
            ),
        );
        if let Some(celsius) = gpu.temperature_c {
            attribution.note(Cause::GpuThrottle, format!("up to {celsius} °C"));
        }
        let share =
            Share { comm: format!("GPU {}", gpu.gpu), ns: lost.max(1), count: samples, ..Share::default() };
        attribution.blame(Cause::GpuThrottle, Who::Named(format!("GPU {}", gpu.gpu)), share);
        let only_capped = reasons == [POWER_CAP];
        drafts.push(Draft {
            severity: Some(match (only_capped, slower) {
                (true, _) => Severity::Low,
                (_, slower) if slower >= 0.3 => Severity::High,
                _ => Severity::Medium,
            }),
            title: format!(
                "GPU {} runs at {clock:.0} of {highest:.0} MHz: {}",
                gpu.gpu,
                reasons.join(", ").replace('_', " ")
            ),
            fixes: vec![
                format!(
                    "see what holds the clock down: `nvidia-smi -i {} -q -d PERFORMANCE,TEMPERATURE,POWER`",
                    gpu.gpu
                ),
                "check fans, inlet temperature and the power cables; hw_* reasons are the board protecting itself".into(),
                "raise the power limit (nvidia-smi -pl) where software set it below the default".into(),
            ],
            sql: format!(
                "SELECT timestamp_ns, sm_clock_mhz, sm_clock_max_mhz, throttle_reasons, temperature_c, power_mw FROM \
                 gpu_samples WHERE gpu = {}",
                gpu.gpu
            ),
            attribution,
            ..Draft::default()
        });
    }
    drafts
}
