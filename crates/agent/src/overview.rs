//! What was concluded so far, summed up for the live screen and the summary. Pure: batches and facts in.

use gpuwhy_model::{Batch, CallInFlight, Direction, Facts, GpuError, GpuSample, MemoryKind, MemoryUse};
use std::collections::{BTreeMap, HashMap};

/// Processes that are gone keep their lines for the summary, but not without end.
const MOST_ROWS: usize = 4096;
const MOST_ERRORS: usize = 32;

/// Sums of the whole trace, and what was seen last.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The latest of each GPU and instance.
    pub gpus: BTreeMap<(u32, Option<String>), GpuSample>,
    pub gpu_errors: Vec<GpuError>,
    /// By process, GPU and kind.
    pub memory: BTreeMap<(u32, Option<u16>, MemoryKind), MemoryUse>,
    pub memory_failures: u64,
    /// By process and stream.
    pub streams: BTreeMap<(u32, u64), StreamBusy>,
    /// By process and direction.
    pub copies: BTreeMap<(u32, Direction), CopySum>,
    /// By name of the event, as `ALL_REDUCE`.
    pub collectives: BTreeMap<String, CollectiveSum>,
    /// By process and executable.
    pub graphs: BTreeMap<(u32, u64), GraphSum>,
    /// Launches by name of the kernel and process.
    pub kernels: HashMap<(u32, u64), KernelSum>,
    /// How often each kind of cold start happened, and how long it took in all.
    pub cold_starts: BTreeMap<String, (u64, u64)>,
    /// Calls that have not returned for a second or more.
    pub in_flight: BTreeMap<(u32, u32, u64), CallInFlight>,
    /// Error counters of the fabric that rose, and by how much.
    pub fabric: BTreeMap<(String, String), u64>,
    /// The collectives whose end was not yet seen, by process, thread and start.
    pending: HashMap<(u32, u32, u64), String>,
}

/// How long a stream was busy, between two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamBusy {
    pub lower_ns: u64,
    pub upper_ns: u64,
    pub window_ns: u64,
    pub launches: u64,
    pub launch_ns: u64,
    /// The same of the last window.
    pub last: (u64, u64, u64),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopySum {
    pub count: u64,
    pub bytes: u64,
    pub sum_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectiveSum {
    pub count: u64,
    pub bytes: u64,
    pub waited: u64,
    pub wait_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphSum {
    pub launches: u64,
    /// Nothing where it was made before the trace.
    pub kernels: Option<u64>,
    pub destroyed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSum {
    pub name: String,
    pub launches: u64,
    pub launch_ns: u64,
}

impl Overview {
    pub(crate) fn take(&mut self, batch: &Batch, facts: &Facts) {
        for sample in &batch.gpu_samples {
            self.gpus.insert((sample.gpu, sample.mig.clone()), sample.clone());
        }
        self.gpu_errors.extend(batch.gpu_errors.iter().cloned());
        let spare = self.gpu_errors.len().saturating_sub(MOST_ERRORS);
        self.gpu_errors.drain(..spare);
        for event in batch.rdma_events.iter().filter(|event| !is_traffic(&event.counter)) {
            let name = if event.counter.is_empty() { &event.event } else { &event.counter };
            *self.fabric.entry((event.device.clone(), name.clone())).or_default() += event.delta.unwrap_or(1);
        }
        self.take_memory(facts);
        self.take_work(facts);
        self.take_collectives(facts);
        self.bound();
    }

    fn take_memory(&mut self, facts: &Facts) {
        for memory in &facts.memory {
            self.memory.insert((memory.pid, memory.gpu, memory.kind), memory.clone());
        }
        self.memory_failures += facts.memory_failures.len() as u64;
        for copy in &facts.copies {
            let sum = self.copies.entry((copy.pid, copy.direction)).or_default();
            sum.count += copy.count;
            sum.bytes += copy.bytes;
            sum.sum_ns += copy.sum_ns;
        }
    }

    fn take_work(&mut self, facts: &Facts) {
        for time in &facts.gpu_times {
            let busy = self.streams.entry((time.pid, time.stream)).or_default();
            busy.lower_ns += time.busy_lower_ns;
            busy.upper_ns += time.busy_upper_ns;
            busy.window_ns += time.window_ns;
            busy.launches += time.launches;
            busy.launch_ns += time.launch_ns;
            busy.last = (time.busy_lower_ns, time.busy_upper_ns, time.window_ns);
        }
        for graph in &facts.graphs {
            let Some(exec) = graph.exec else { continue };
            self.graphs.insert(
                (graph.pid, exec),
                GraphSum {
                    launches: graph.launches,
                    kernels: graph.kernels,
                    destroyed: graph.destroyed_ns.is_some(),
                },
            );
        }
        for kernel in &facts.kernels {
            let sum = KernelSum {
                name: kernel.name.clone(),
                launches: kernel.launches,
                launch_ns: kernel.launch_ns,
            };
            self.kernels.insert((kernel.pid, kernel.handle), sum);
        }
        for cold in &facts.cold_starts {
            let (count, ns) = self.cold_starts.entry(cold.event.clone()).or_default();
            *count += 1;
            *ns += cold.duration_ns;
        }
        for call in &facts.in_flight {
            let key = (call.pid, call.tid, call.start_ns);
            match call.ended_ns {
                None => drop(self.in_flight.insert(key, call.clone())),
                Some(_) => drop(self.in_flight.remove(&key)),
            }
        }
    }

    fn take_collectives(&mut self, facts: &Facts) {
        for collective in &facts.collectives {
            let sum = self.collectives.entry(collective.event.clone()).or_default();
            sum.count += 1;
            sum.bytes += collective.bytes.unwrap_or(0);
            let call = &collective.call;
            if collective.count.is_some() {
                self.pending.insert((call.pid, call.tid, call.start_ns), collective.event.clone());
            }
        }
        for wait in &facts.collective_waits {
            if let Some(event) = self.pending.remove(&(wait.pid, wait.tid, wait.start_ns)) {
                let sum = self.collectives.entry(event).or_default();
                sum.waited += 1;
                sum.wait_ns += wait.wait_ns;
            }
        }
    }

    /// What has no natural end is forgotten beyond a size: the file has all of it.
    fn bound(&mut self) {
        while self.streams.len() > MOST_ROWS {
            self.streams.pop_first();
        }
        while self.graphs.len() > MOST_ROWS {
            self.graphs.pop_first();
        }
        while self.memory.len() > MOST_ROWS {
            self.memory.pop_first();
        }
        while self.copies.len() > MOST_ROWS {
            self.copies.pop_first();
        }
        if self.kernels.len() > MOST_ROWS {
            let mut launches: Vec<u64> = self.kernels.values().map(|kernel| kernel.launches).collect();
            launches.sort_unstable();
            let least = launches[launches.len() - MOST_ROWS / 2];
            self.kernels.retain(|_, kernel| kernel.launches >= least);
        }
        if self.pending.len() > MOST_ROWS * 4 {
            self.pending.clear();
        }
    }
}

/// Counters of bytes are no trouble.
fn is_traffic(counter: &str) -> bool {
    matches!(counter, "port_xmit_data" | "port_rcv_data")
}
