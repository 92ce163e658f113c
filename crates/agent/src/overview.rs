//! What was concluded so far, summed up for the live screen and the summary. Pure: batches and facts in.

mod code;
mod collectives;
mod cost;
mod gpu;
mod mark;
mod memory;
mod work;

pub(crate) use code::line_of;
pub use code::{Code, LineSum};
pub use collectives::{CollectiveSum, Collectives, Lateness, Straggling};
pub use cost::CostSum;
pub use gpu::{GpuSum, Spread};
pub use mark::MarkSum;
pub use memory::MemorySum;
pub use work::{CopySum, GraphSum, KernelSum, StreamBusy, StreamWindow};

use gpuwhy_model::{
    Batch, CallClass, CallInFlight, Direction, Facts, GpuError, MemoryFailure, MemoryKind, ServerSample,
};
use std::collections::{BTreeMap, HashMap};

/// Processes that are gone keep their lines for the summary, but not without end.
const MAX_ROWS: usize = 4096;
const MAX_ERRORS: usize = 32;

/// Sums of the whole trace, and what was seen last.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// By GPU and instance.
    pub gpus: BTreeMap<(u32, Option<String>), GpuSum>,
    /// The latest ones, and how many there were.
    pub gpu_errors: Vec<GpuError>,
    pub gpu_errors_seen: u64,
    /// By process, GPU and kind.
    pub memory: BTreeMap<(u32, Option<u16>, MemoryKind), MemorySum>,
    /// The latest one, and how many there were.
    pub memory_failure: Option<MemoryFailure>,
    pub memory_failures: u64,
    /// By process, stream, and thread where each thread has a default stream of its own.
    pub streams: BTreeMap<(u32, u64, u32), StreamBusy>,
    /// By process and direction.
    pub copies: BTreeMap<(u32, Direction), CopySum>,
    pub collectives: Collectives,
    /// By creation, process and executable.
    pub graphs: BTreeMap<(u64, u32, u64), GraphSum>,
    /// The oldest graphs of processes that made too many to keep: how many, and their launches.
    pub older_graphs: BTreeMap<u32, (u64, u64)>,
    /// By process and function.
    pub kernels: HashMap<(u32, u64), KernelSum>,
    /// How often each kind of cold start happened, and how long it took in all.
    pub cold_starts: BTreeMap<String, (u64, u64)>,
    /// Calls that have not returned for a second or more.
    pub in_flight: BTreeMap<(u32, u32, u64), CallInFlight>,
    /// Error counters of the fabric that rose, and by how much; asynchronous events, and how many.
    pub fabric: BTreeMap<(String, String), u64>,
    pub code: Code,
    /// By process.
    pub tracing_costs: BTreeMap<u32, CostSum>,
    /// How long calls were watched that were not watched all the time.
    pub watched_ns: BTreeMap<CallClass, u64>,
    /// By what is marked, and by process.
    pub marks: BTreeMap<(String, Option<u32>), MarkSum>,
    pub refused_annotations: BTreeMap<String, u64>,
    /// The latest sample of each inference server, by address.
    pub servers: BTreeMap<String, ServerSample>,
}

impl Overview {
    pub fn take(&mut self, batch: &Batch, facts: &Facts) {
        for sample in &batch.gpu_samples {
            self.gpus.entry((sample.gpu, sample.mig.clone())).or_default().take(sample);
        }
        self.gpu_errors_seen += batch.gpu_errors.len() as u64;
        self.gpu_errors.extend(batch.gpu_errors.iter().cloned());
        let spare = self.gpu_errors.len().saturating_sub(MAX_ERRORS);
        self.gpu_errors.drain(..spare);
        for event in batch.rdma_events.iter().filter(|event| !is_traffic(&event.counter)) {
            let name = if event.counter.is_empty() { &event.event } else { &event.counter };
            *self.fabric.entry((event.device.clone(), name.clone())).or_default() += event.delta.unwrap_or(1);
        }
        self.take_memory(facts);
        self.take_work(facts);
        self.collectives.take(facts);
        self.code.take(batch);
        for cost in &batch.tracing_costs {
            self.tracing_costs.entry(cost.pid).or_default().take(cost);
        }
        for slice in batch.slices.iter().filter(|slice| slice.pid.is_none()) {
            *self.watched_ns.entry(slice.class).or_default() += slice.span.ns();
        }
        self.take_messages(batch);
        self.bound();
    }

    /// What programs and servers say of themselves.
    fn take_messages(&mut self, batch: &Batch) {
        for mark in &batch.annotations {
            self.marks.entry((mark.event.clone(), mark.pid)).or_default().take(mark);
        }
        for (why, count) in &batch.refused_annotations {
            *self.refused_annotations.entry(why.clone()).or_default() += count;
        }
        for sample in &batch.server_samples {
            self.servers.insert(sample.url.clone(), sample.clone());
        }
    }

    fn take_memory(&mut self, facts: &Facts) {
        for memory in &facts.memory {
            self.memory
                .entry((memory.pid, memory.gpu, memory.kind))
                .and_modify(|sum| sum.take(memory))
                .or_insert_with(|| MemorySum::new(memory));
        }
        self.memory_failures += facts.memory_failures.len() as u64;
        if let Some(failure) = facts.memory_failures.last() {
            self.memory_failure = Some(failure.clone());
        }
    }

    fn take_work(&mut self, facts: &Facts) {
        for time in &facts.gpu_times {
            self.streams.entry((time.pid, time.stream, time.stream_tid)).or_default().take(time);
        }
        for copy in &facts.copies {
            self.copies.entry((copy.pid, copy.direction)).or_default().take(copy);
        }
        for graph in &facts.graphs {
            if let Some(exec) = graph.exec {
                self.graphs.insert((graph.created_ns, graph.pid, exec), GraphSum::of(graph));
            }
        }
        for kernel in &facts.kernels {
            self.kernels.insert((kernel.pid, kernel.handle), KernelSum::of(kernel));
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

    /// What has no natural end is forgotten beyond a size: the file has all of it.
    fn bound(&mut self) {
        while self.streams.len() > MAX_ROWS {
            self.streams.pop_first();
        }
        while self.memory.len() > MAX_ROWS {
            self.memory.pop_first();
        }
        while self.copies.len() > MAX_ROWS {
            self.copies.pop_first();
        }
        while self.graphs.len() > MAX_ROWS
            && let Some(((_, pid, _), graph)) = self.graphs.pop_first()
        {
            let (made, launches) = self.older_graphs.entry(pid).or_default();
            *made += 1;
            *launches += graph.launches;
        }
        while self.marks.len() > MAX_ROWS {
            self.marks.pop_first();
        }
        while self.servers.len() > MAX_ROWS {
            self.servers.pop_first();
        }
        while self.tracing_costs.len() > MAX_ROWS {
            self.tracing_costs.pop_first();
        }
        while self.older_graphs.len() > MAX_ROWS {
            self.older_graphs.pop_first();
        }
        if self.kernels.len() > MAX_ROWS {
            let mut launches: Vec<u64> = self.kernels.values().map(|kernel| kernel.launches).collect();
            launches.sort_unstable();
            let least = launches[launches.len() - MAX_ROWS / 2];
            self.kernels.retain(|_, kernel| kernel.launches >= least);
        }
    }
}

/// Counters of bytes are no trouble.
fn is_traffic(counter: &str) -> bool {
    matches!(counter, "port_xmit_data" | "port_rcv_data")
}
