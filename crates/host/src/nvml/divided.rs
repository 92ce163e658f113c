//! The parts of a divided GPU (MIG), each with memory, work and processes of its own.

use super::activity::ActivityMeter;
use super::asked::Asked;
use super::process::processes;
use gpuwhy_model::GpuSample;
use gpuwhy_nvml::{Gpu, Sample};
use std::collections::HashMap;

/// How often a GPU is asked whether it is divided: the answer takes 0.6 ms (H200), and is changed by hand.
const EVERY_NS: u64 = 10_000_000_000;

/// What is kept between readings, by the part's unique name: parts are made and removed while we run.
#[derive(Debug, Default)]
pub(super) struct Divided {
    parts: HashMap<String, Part>,
    divided: bool,
    asked_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct Part {
    asked: Asked,
    activity: ActivityMeter,
}

impl Divided {
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        number: u32,
        whole: &Gpu,
        asked: &mut Asked,
    ) -> Vec<GpuSample> {
        if self.asked_ns.is_none_or(|asked_ns| now_ns.saturating_sub(asked_ns) >= EVERY_NS) {
            self.asked_ns = Some(now_ns);
            self.divided = asked.ask("mig mode", || whole.is_divided()) == Some(true);
        }
        if !self.divided {
            self.parts.clear();
            return Vec::new();
        }
        let mut before = std::mem::take(&mut self.parts);
        let mut samples = Vec::new();
        for gpu in asked.ask("mig parts", || whole.parts()).unwrap_or_default() {
            let Ok(uuid) = gpu.device().uuid() else { continue };
            let mut part = before.remove(&uuid).unwrap_or_default();
            samples.push(GpuSample { uuid: uuid.clone(), gpu: number, ..part.read(now_ns, whole, &gpu) });
            self.parts.insert(uuid, part);
        }
        samples
    }
}

impl Part {
    fn read(&mut self, now_ns: u64, whole: &Gpu, gpu: &Gpu) -> GpuSample {
        let asked = &mut self.asked;
        asked.begin(now_ns);
        let device = gpu.device();
        let instance = asked.ask("instance", || gpu.instance());
        let memory = asked.ask("memory", || device.memory_info());
        let activity = instance
            .map(|(gpu, _)| self.activity.read(asked, || Sample::of_instance(whole, gpu)))
            .unwrap_or_default();
        GpuSample {
            time_ns: now_ns,
            mig: Some(instance.map_or("?".to_string(), |(gpu, compute)| format!("{gpu}/{compute}"))),
            name: asked.ask("name", || device.name()).unwrap_or_default(),
            memory_used_bytes: memory.as_ref().map(|memory| memory.used),
            memory_total_bytes: memory.as_ref().map(|memory| memory.total),
            graphics_pct: activity.graphics_pct,
            sm_occupancy_pct: activity.sm_occupancy_pct,
            sm_active_pct: activity.sm_active_pct,
            dram_active_pct: activity.dram_active_pct,
            tensor_active_pct: activity.tensor_active_pct,
            processes: processes(gpu, asked),
            ..GpuSample::default()
        }
    }
}
