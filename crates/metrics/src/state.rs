//! From batches to points. Pure: time comes in with the data, and nothing leaves but what is asked for.

use crate::distribution::Exemplar;
use crate::ids;
use crate::otlp::Spans;
use crate::owners::Owners;
use crate::points::{Points, Text, clean};
use crate::push::DeliveryNow;
use crate::{Id, gpu};
use gpuwhy_model::{
    Batch, Call, CallInFlight, Facts, Finding, Kept, MemoryKind, MemoryUse, OpId, OpInfo, ProbeState,
    Severity,
};
use std::collections::{BTreeMap, HashMap};

/// Findings remembered.
const MAX_REPORTED: usize = 10_000;

/// Process, GPU and kind.
type MemoryKey = (u32, Option<u16>, MemoryKind);

/// Everything that is told of a trace, as of the last batch.
#[derive(Debug)]
pub struct State {
    host: String,
    start_ns: u64,
    ops: HashMap<OpId, Text>,
    owners: Owners,
    pub(crate) points: Points,
    /// What each process had last, and as whose it was counted.
    memory: HashMap<MemoryKey, (Vec<Text>, MemoryUse)>,
    in_flight: BTreeMap<(u32, u32, u64), CallInFlight>,
    /// Error counters of GPUs when they were first read.
    gpu_counters: gpu::Counters,
    /// Findings that were told, as bad as they were then.
    reported: HashMap<String, Severity>,
    /// Slow calls to be sent; nothing where nobody wants them.
    spans: Option<Spans>,
    /// When metrics were pushed last.
    pushed_ns: u64,
}

impl State {
    /// Of a trace on `host` that began at `start_ns`. `with_spans` keeps slow calls until they are asked for.
    pub fn new(host: &str, start_ns: u64, ops: &[OpInfo], with_spans: bool) -> State {
        let mut points = Points::default();
        points.set_now(start_ns);
        points.set(Id::AgentInfo, vec![env!("CARGO_PKG_VERSION").into()], 1.0);
        State {
            host: host.into(),
            start_ns,
            ops: ops.iter().map(|op| (op.id, op.name.as_str().into())).collect(),
            owners: Owners::default(),
            points,
            memory: HashMap::new(),
            in_flight: BTreeMap::new(),
            gpu_counters: gpu::Counters::default(),
            reported: HashMap::new(),
            spans: with_spans.then(|| Spans::new(host, ops)),
            pushed_ns: 0,
        }
    }

    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// When the newest of its numbers was told.
    pub fn now_ns(&self) -> u64 {
        self.points.now_ns()
    }

    /// What came in, and what follows from it.
    pub fn take(&mut self, batch: &Batch, facts: &Facts) {
        for process in &batch.processes {
            if let Some(evicted) = self.owners.see(process) {
                self.points.fold(&evicted);
            }
        }
        self.take_calls(batch, facts);
        self.take_work(facts);
        self.take_host(batch);
        for process in batch.processes.iter().filter(|process| process.end_ns.is_some()) {
            self.release_memory(process.pid);
        }
        self.points.set(Id::Processes, Vec::new(), self.owners.living() as f64);
        if let Some(spans) = &mut self.spans {
            spans.take(batch, |pid| self.owners.of(pid));
        }
    }

    /// It is `now_ns`, and probes are in these states.
    pub fn see_probes(&mut self, now_ns: u64, probes: &[(String, ProbeState, u64)]) {
        self.points.set_now(now_ns);
        self.points.zero(Id::Probes);
        for (probe, state, count) in probes {
            self.points.set(Id::Probes, vec![clean(probe), state.name().into()], *count as f64);
        }
        self.report_in_flight();
    }

    /// Everything up to now was pushed: the next push has exemplars of calls that ended after.
    pub fn pushed(&mut self) {
        self.pushed_ns = self.now_ns();
    }

    pub(crate) fn pushed_ns(&self) -> u64 {
        self.pushed_ns
    }

    /// What gpuwhy itself costs.
    pub fn see_own(&mut self, cpu_ns: u64, memory_bytes: u64) {
        self.points.set_count(Id::AgentCpu, Vec::new(), cpu_ns);
        self.points.set(Id::AgentMemory, Vec::new(), memory_bytes as f64);
    }

    /// What became of what was pushed.
    pub fn see_delivery(&mut self, delivery: &DeliveryNow) {
        for (signal, sent) in &delivery.sent {
            self.points.set_count(Id::OtlpSent, vec![signal.name().into()], *sent);
        }
        for ((signal, reason), dropped) in &delivery.dropped {
            self.points.set_count(
                Id::OtlpDropped,
                vec![signal.name().into(), reason.name().into()],
                *dropped,
            );
        }
        self.points.set_count(Id::OtlpRetries, Vec::new(), delivery.retries);
        self.points.set(Id::OtlpQueue, Vec::new(), delivery.queued_bytes as f64);
    }

    /// The findings of now; those that are new, or worse than when they were told, come back.
    pub fn see_findings<'a>(&mut self, findings: &'a [Finding]) -> Vec<&'a Finding> {
        self.points.zero(Id::FindingsActive);
        for finding in findings {
            self.points.change(Id::FindingsActive, finding_labels(finding), 1.0);
        }
        let news: Vec<&Finding> = findings.iter().filter(|finding| self.is_news(finding)).collect();
        for finding in &news {
            self.points.count(Id::Findings, finding_labels(finding), 1);
        }
        news
    }

    /// Slow calls that were not yet sent; nothing where they are not kept.
    pub fn spans(&mut self) -> Option<&mut Spans> {
        self.spans.as_mut()
    }

    fn is_news(&mut self, finding: &Finding) -> bool {
        let worse = self.reported.get(&finding.id).is_none_or(|known| finding.severity < *known);
        if worse {
            // Those of a trace that has gone on for weeks may be told again.
            if self.reported.len() >= MAX_REPORTED {
                self.reported.clear();
            }
            self.reported.insert(finding.id.clone(), finding.severity);
        }
        worse
    }

    fn op(&self, id: OpId) -> Text {
        self.ops.get(&id).cloned().unwrap_or_else(|| "".into())
    }

    /// `first` labels, and whose it is.
    fn labels<const N: usize>(&self, first: [Text; N], pid: u32) -> Vec<Text> {
        first.into_iter().chain(self.owners.of(pid)).collect()
    }

    fn take_calls(&mut self, batch: &Batch, facts: &Facts) {
        for window in &batch.windows {
            self.points.set_now(window.window_start_ns + window.window_ns);
            let labels = self.labels([self.op(window.op)], window.pid);
            self.points.count(Id::Calls, labels.clone(), window.count);
            if window.errors > 0 {
                self.points.count(Id::CallErrors, labels.clone(), window.errors);
            }
            if let Some(distribution) = self.points.distribution(Id::CallDuration, labels) {
                distribution.add(&window.hist, window.sum_ns);
            }
        }
        for row in &facts.blame {
            let labels = self.labels([self.op(row.op), row.cause.name().into()], row.pid);
            self.points.count(Id::Blame, labels, row.ns);
        }
        let kept = batch.calls.iter().chain(batch.nccl_calls.iter().map(|nccl| &nccl.call));
        for call in kept.filter(|call| is_slow(call)) {
            let (trace_id, span_id) = ids::of_call(&self.host, call.pid, call.tid, call.start_ns);
            let labels = self.labels([self.op(call.op)], call.pid);
            if let Some(distribution) = self.points.distribution(Id::CallDuration, labels) {
                distribution.show(Exemplar {
                    trace_id,
                    span_id,
                    start_ns: call.start_ns,
                    duration_ns: call.duration_ns,
                    stack_id: call.stack_id,
                });
            }
        }
        for call in &facts.in_flight {
            let key = (call.pid, call.tid, call.start_ns);
            match call.ended_ns {
                None => drop(self.in_flight.insert(key, call.clone())),
                Some(_) => drop(self.in_flight.remove(&key)),
            }
        }
    }

    fn report_in_flight(&mut self) {
        self.points.zero(Id::CallsInFlight);
        self.points.zero(Id::InFlightLongest);
        let mut longest: BTreeMap<Vec<Text>, (u64, u64)> = BTreeMap::new();
        for call in self.in_flight.values() {
            let lasted = self.points.now_ns().saturating_sub(call.start_ns);
            let sum = longest.entry(self.labels([self.op(call.op)], call.pid)).or_default();
            *sum = (sum.0 + 1, sum.1.max(lasted));
        }
        for (labels, (calls, lasted)) in longest {
            self.points.set(Id::CallsInFlight, labels.clone(), calls as f64);
            self.points.set(Id::InFlightLongest, labels, lasted as f64 / 1e9);
        }
    }

    fn take_work(&mut self, facts: &Facts) {
        for collective in &facts.collectives {
            let labels = self.labels([clean(&collective.event)], collective.call.pid);
            self.points.count(Id::Collectives, labels.clone(), 1);
            self.points.count(Id::CollectiveBytes, labels, collective.bytes.unwrap_or(0));
        }
        for wait in &facts.collective_waits {
            let labels = self.labels([], wait.pid);
            if let Some(distribution) = self.points.distribution(Id::CollectiveWait, labels) {
                distribution.record(wait.wait_ns);
            }
        }
        for copy in &facts.copies {
            let labels = self.labels([copy.direction.name().into()], copy.pid);
            self.points.count(Id::Copies, labels.clone(), copy.count);
            self.points.count(Id::CopiedBytes, labels, copy.bytes);
        }
        for time in &facts.gpu_times {
            for (bound, ns) in [("lower", time.busy_lower_ns), ("upper", time.busy_upper_ns)] {
                let labels = self.labels([bound.into()], time.pid);
                self.points.count(Id::StreamBusy, labels, ns);
            }
        }
        for cold in &facts.cold_starts {
            let labels = self.labels([clean(&cold.event)], cold.pid);
            self.points.count(Id::ColdStarts, labels.clone(), 1);
            self.points.count(Id::ColdStartTime, labels, cold.duration_ns);
        }
        for memory in &facts.memory {
            self.take_memory(memory);
        }
    }

    /// Sums of a process since its first allocation: what they rose by is counted.
    fn take_memory(&mut self, memory: &MemoryUse) {
        let gpu: Text = memory.gpu.map_or_else(String::new, |gpu| gpu.to_string()).into();
        let labels = self.labels([memory.kind.name().into(), gpu], memory.pid);
        let key = (memory.pid, memory.gpu, memory.kind);
        let before = self.memory.insert(key, (labels.clone(), memory.clone()));
        let (mut allocated, mut failures) = (memory.allocated_bytes, memory.failures);
        if let Some((labels, before)) = before {
            self.points.change(Id::MemoryLive, labels, -(before.live_bytes as f64));
            // A number that was given to another process starts anew.
            allocated = allocated.checked_sub(before.allocated_bytes).unwrap_or(allocated);
            failures = failures.checked_sub(before.failures).unwrap_or(failures);
        }
        self.points.change(Id::MemoryLive, labels.clone(), memory.live_bytes as f64);
        self.points.count(Id::MemoryAllocated, labels.clone(), allocated);
        if failures > 0 {
            self.points.count(Id::MemoryFailures, labels, failures);
        }
    }

    /// Nothing of a process that is gone is still allocated.
    fn release_memory(&mut self, pid: u32) {
        let points = &mut self.points;
        self.memory.retain(|(owner, _, _), (labels, last)| {
            if *owner == pid {
                points.change(Id::MemoryLive, labels.clone(), -(last.live_bytes as f64));
            }
            *owner != pid
        });
        self.in_flight.retain(|(owner, _, _), _| *owner != pid);
    }

    fn take_host(&mut self, batch: &Batch) {
        for loss in &batch.losses {
            self.points.count(Id::Lost, vec![clean(&loss.probe), clean(&loss.reason)], loss.count);
        }
        for cost in &batch.tracing_costs {
            let labels = self.labels([], cost.pid);
            self.points.count(Id::WatchCost, labels.clone(), cost.cost_ns);
            self.points.count(Id::WatchCalls, labels, cost.calls);
        }
        for event in &batch.tcp_events {
            let labels = self.labels([], event.pid);
            self.points.count(Id::TcpRetransmits, labels, 1);
        }
        for event in batch.rdma_events.iter().filter(|event| !is_traffic(&event.counter)) {
            let name = if event.counter.is_empty() { &event.event } else { &event.counter };
            self.points.count(
                Id::FabricErrors,
                vec![clean(&event.device), clean(name)],
                event.delta.unwrap_or(1),
            );
        }
        for sample in &batch.gpu_samples {
            self.points.set_now(sample.time_ns);
            gpu::take_sample(&mut self.points, &mut self.gpu_counters, sample);
        }
        for error in &batch.gpu_errors {
            gpu::take_error(&mut self.points, error);
        }
    }
}

/// Kept because of what it was, not by chance.
pub(crate) fn is_slow(call: &Call) -> bool {
    matches!(call.kept, Kept::Slow | Kept::Error)
}

/// Counters of bytes are no trouble.
fn is_traffic(counter: &str) -> bool {
    matches!(counter, "port_xmit_data" | "port_rcv_data")
}

fn finding_labels(finding: &Finding) -> Vec<Text> {
    let class = finding.causes.first().map_or("unknown", |cause| cause.class.name());
    vec![class.into(), finding.severity.name().into()]
}
