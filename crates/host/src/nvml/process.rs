//! The processes that use a GPU.

use super::asked::Asked;
use gpuwhy_model::{GpuProcess, GpuSample};
use gpuwhy_nvml::{Gpu, ProcessInfo, UsedGpuMemory};
use std::collections::{BTreeMap, HashMap};

/// Those with a compute context, clients of the multi-process service (whose server holds the context for them), and
/// those that draw.
pub(super) fn processes(gpu: &Gpu, asked: &mut Asked) -> Vec<GpuProcess> {
    let device = gpu.device();
    merge(
        [
            asked.ask("compute processes", || device.running_compute_processes()),
            asked.ask("mps processes", || device.mps_running_compute_processes()),
            asked.ask("graphics processes", || device.running_graphics_processes()),
        ]
        .into_iter()
        .flatten()
        .flatten(),
    )
}

/// One entry a process, by number: one that computes and draws is told twice, and one with contexts in two instances
/// of a divided GPU once for each.
fn merge(reported: impl Iterator<Item = ProcessInfo>) -> Vec<GpuProcess> {
    let mut by_place: BTreeMap<(u32, Option<u32>, Option<u32>), Option<u64>> = BTreeMap::new();
    for process in reported {
        let memory = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let place = (process.pid, process.gpu_instance_id, process.compute_instance_id);
        let known = by_place.entry(place).or_default();
        *known = (*known).max(memory);
    }
    let mut processes: Vec<GpuProcess> = Vec::new();
    for ((pid, ..), memory_bytes) in by_place {
        match processes.last_mut().filter(|last| last.pid == pid) {
            Some(last) => {
                last.memory_bytes = match (last.memory_bytes, memory_bytes) {
                    (Some(one), Some(other)) => Some(one.saturating_add(other)),
                    (one, other) => one.or(other),
                }
            }
            None => processes.push(GpuProcess { pid, memory_bytes }),
        }
    }
    processes
}

/// Each process's GPU, or nothing where it uses several. A part of a divided GPU has the number of the whole.
pub(super) fn gpus_of_processes(samples: &[GpuSample]) -> HashMap<u32, Option<u16>> {
    let mut gpus: HashMap<u32, Option<u16>> = HashMap::new();
    for sample in samples {
        let Ok(gpu) = u16::try_from(sample.gpu) else { continue };
        for process in &sample.processes {
            let known = gpus.entry(process.pid).or_insert(Some(gpu));
            if *known != Some(gpu) {
                *known = None;
            }
        }
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(pid: u32, used_gpu_memory: UsedGpuMemory, gpu_instance_id: Option<u32>) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id, compute_instance_id: gpu_instance_id }
    }

    #[test]
    fn a_process_is_told_once() {
        let processes = merge(
            [
                reported(9, UsedGpuMemory::Used(100), None),
                reported(7, UsedGpuMemory::Unavailable, None),
                reported(9, UsedGpuMemory::Used(100), None),
                reported(5, UsedGpuMemory::Used(10), Some(1)),
                reported(5, UsedGpuMemory::Used(20), Some(2)),
            ]
            .into_iter(),
        );
        let process = |pid, memory_bytes| GpuProcess { pid, memory_bytes };
        assert_eq!(processes, [process(5, Some(30)), process(7, None), process(9, Some(100))]);
    }

    #[test]
    fn a_process_on_two_gpus_has_no_gpu_of_its_own() {
        let sample = |gpu, mig: Option<&str>, pids: &[u32]| GpuSample {
            gpu,
            mig: mig.map(ToString::to_string),
            processes: pids.iter().map(|pid| GpuProcess { pid: *pid, memory_bytes: None }).collect(),
            ..GpuSample::default()
        };
        let gpus = gpus_of_processes(&[
            sample(0, None, &[1, 2]),
            sample(1, None, &[2, 3]),
            sample(1, Some("1/0"), &[3]),
            sample(2, None, &[2]),
        ]);
        assert_eq!(gpus.get(&1), Some(&Some(0)));
        assert_eq!(gpus.get(&2), Some(&None));
        assert_eq!(gpus.get(&3), Some(&Some(1)));
        assert_eq!(gpus.get(&4), None);
    }
}
