//! The kernel's loss counters, by CPU and reason.

use super::error::LoadError;
use crate::raw::cuda as raw;
use gpuwhy_model::Loss;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// Probe and reason of each counter.
const NAMES: [(u32, &str, &str); 12] = [
    (raw::LOSS_RING_FULL, "cuda", "ring full: a kept call was counted but not recorded"),
    (raw::LOSS_WINDOWS_FULL, "cuda", "too many threads and operations: a call was not counted"),
    (raw::LOSS_WAITS_FULL, "sched", "too many waits: a wait was not billed to anybody"),
    (raw::LOSS_TASKS_FULL, "cuda", "no memory: a thread's call was not followed"),
    (raw::LOSS_TARGETS_FULL, "process", "too many processes: one was not followed"),
    (raw::LOSS_DEPTH, "cuda", "calls nested too deep: one was not followed"),
    (raw::LOSS_PROCESS_RING, "process", "ring full: a process event was not recorded"),
    (raw::LOSS_SLOTS, "cuda", "too many streams, functions or communicators: one was not followed"),
    (raw::LOSS_STATE_RING, "cuda", "ring full: a memory, graph, name or completion record was lost"),
    (raw::LOSS_TOLD_RING, "sched", "ring full: an event of the host was billed but not recorded"),
    (raw::LOSS_STACK_RING, "cuda", "ring full: a stack was lost"),
    (raw::LOSS_SAMPLE_RING, "cpu", "ring full: a sample of running code was lost"),
];
const _: () = assert!(NAMES.len() == raw::LOSS_KINDS as usize);

/// Turns counters that only grow into losses by time range.
#[derive(Debug, Default)]
pub(crate) struct LossReader {
    last: Vec<Vec<u64>>,
    last_ns: u64,
}

impl LossReader {
    pub(crate) fn new(now_ns: u64) -> Self {
        LossReader { last: Vec::new(), last_ns: now_ns }
    }

    /// What was lost since the last time.
    pub(crate) fn read(&mut self, map: &MapHandle, now_ns: u64) -> Result<Vec<Loss>, LoadError> {
        let mut losses = Vec::new();
        self.last.resize_with(NAMES.len(), Vec::new);
        for (kind, probe, reason) in NAMES {
            let counts = map
                .lookup_percpu(&kind.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| LoadError::Internal(format!("loss counters: {error}")))?
                .unwrap_or_default();
            let last = &mut self.last[kind as usize];
            last.resize(counts.len(), 0);
            for (cpu, bytes) in counts.iter().enumerate() {
                let count = bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
                if count > last[cpu] {
                    losses.push(Loss {
                        start_ns: self.last_ns,
                        end_ns: now_ns,
                        probe: probe.to_string(),
                        cpu: cpu as i32,
                        reason: reason.to_string(),
                        count: count - last[cpu],
                    });
                    last[cpu] = count;
                }
            }
        }
        self.last_ns = now_ns;
        Ok(losses)
    }
}
