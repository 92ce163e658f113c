//! The metrics there are, each declared once. Names are OTLP's; what Prometheus calls them follows from name, unit and
//! kind by the rules by which Prometheus itself renames what it gets over OTLP, so both ways lead to the same series.

/// Stands for what is beyond a cap.
pub const OTHER: &str = "other";

/// How a metric behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, from the start of the trace on.
    Counter,
    Gauge,
    /// Durations of each.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Base units only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    BytesPerSecond,
    /// A share of one; only of gauges.
    Ratio,
    Watts,
    Celsius,
    Hertz,
    /// Things counted.
    Each(&'static str),
}

impl Unit {
    /// The UCUM code, as in OTLP.
    pub fn code(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "By",
            Unit::BytesPerSecond => "By/s",
            Unit::Ratio => "1",
            Unit::Watts => "W",
            Unit::Celsius => "Cel",
            Unit::Hertz => "Hz",
            Unit::Each(code) => code,
        }
    }

    /// What Prometheus puts at the end of the name; empty for things counted.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Ratio => "ratio",
            Unit::Watts => "watts",
            Unit::Celsius => "celsius",
            Unit::Hertz => "hertz",
            Unit::Each(_) => "",
        }
    }

    /// Counters are summed as whole numbers, time in nanoseconds: so many make one of the unit.
    pub fn scale(self) -> f64 {
        if self == Unit::Seconds { 1e9 } else { 1.0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub id: Id,
    /// As in OTLP.
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub about: &'static str,
}

impl Metric {
    /// The family's name on a Prometheus page: without what counters have at the end.
    pub fn family(&self) -> String {
        let mut name = self.name.replace('.', "_");
        let suffix = self.unit.suffix();
        if !suffix.is_empty() {
            name += "_";
            name += suffix;
        }
        name
    }

    /// As queries name it.
    pub fn prometheus_name(&self) -> String {
        let family = self.family();
        if self.kind == Kind::Counter { family + "_total" } else { family }
    }

    /// Whether the last three labels say whose it is.
    pub fn is_owned(&self) -> bool {
        self.labels.ends_with(OWNER)
    }
}

/// Whose it is; see [`crate::owners`].
pub(crate) const OWNER: &[&str] = &["process", "rank", "pod"];

macro_rules! metrics {
    ($($id:ident $name:literal $kind:ident $unit:expr, [$($label:literal),*] $about:literal;)*) => {
        /// Which metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id { $(#[doc = $about] $id,)* }

        /// All of them, in the order in which they are shown.
        pub const METRICS: &[Metric] = {
            use Unit::{Bytes, BytesPerSecond, Celsius, Each, Hertz, Ratio, Seconds, Watts};
            &[$(Metric {
                id: Id::$id,
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                about: $about,
            },)*]
        };
    };
}

impl Id {
    pub fn metric(self) -> &'static Metric {
        &METRICS[self as usize]
    }
}

metrics! {
    Calls "gpuwhy.calls" Counter Each("{call}"), ["op", "process", "rank", "pod"]
        "Calls of CUDA, HIP, NCCL and driver functions that returned, kept or not";
    CallErrors "gpuwhy.call.errors" Counter Each("{call}"), ["op", "process", "rank", "pod"]
        "Calls that returned an error";
    CallDuration "gpuwhy.call.duration" Histogram Seconds, ["op", "process", "rank", "pod"]
        "How long calls took; of calls that are watched in slices of time, to keep the budget, those in slices";
    Blame "gpuwhy.blame" Counter Seconds, ["op", "cause", "process", "rank", "pod"]
        "Where the time of threads went, by class of cause; without an operation it is time between calls, waits only";
    CallsInFlight "gpuwhy.calls.in_flight" Gauge Each("{call}"), ["op", "process", "rank", "pod"]
        "Calls that have not returned for a second or more";
    InFlightLongest "gpuwhy.calls.in_flight.longest" Gauge Seconds, ["op", "process", "rank", "pod"]
        "How long the oldest of the calls in flight has lasted";
    Collectives "gpuwhy.collectives" Counter Each("{collective}"), ["collective", "process", "rank", "pod"]
        "Calls of the collective library, by what they do";
    CollectiveBytes "gpuwhy.collective.size" Counter Bytes, ["collective", "process", "rank", "pod"]
        "Bytes those calls were about, where the library was told";
    CollectiveWait "gpuwhy.collective.wait" Histogram Seconds, ["process", "rank", "pod"]
        "How long the host waited for collectives whose end it asked for";
    Copies "gpuwhy.copies" Counter Each("{copy}"), ["direction", "process", "rank", "pod"]
        "Copies";
    CopiedBytes "gpuwhy.copied" Counter Bytes, ["direction", "process", "rank", "pod"]
        "Bytes copied";
    StreamBusy "gpuwhy.stream.busy" Counter Seconds, ["bound", "process", "rank", "pod"]
        "How long streams were busy, summed over streams: at least (lower) and at most (upper)";
    MemoryLive "gpuwhy.memory.live" Gauge Bytes, ["kind", "gpu", "process", "rank", "pod"]
        "GPU memory allocated in this trace and not freed; kind is device, managed, host or registered";
    MemoryAllocated "gpuwhy.memory.allocated" Counter Bytes, ["kind", "gpu", "process", "rank", "pod"]
        "GPU memory ever allocated";
    MemoryFailures "gpuwhy.memory.failures" Counter Each("{call}"), ["kind", "gpu", "process", "rank", "pod"]
        "Allocations that failed";
    ColdStarts "gpuwhy.coldstarts" Counter Each("{coldstart}"), ["event", "process", "rank", "pod"]
        "What happens once and makes first calls slow: context, module_load, jit, lazy_load, first_launch";
    ColdStartTime "gpuwhy.coldstart.time" Counter Seconds, ["event", "process", "rank", "pod"]
        "How long that took";
    TcpRetransmits "gpuwhy.tcp.retransmits" Counter Each("{retransmit}"), ["process", "rank", "pod"]
        "TCP segments sent again, by the process that has the socket";
    FindingsActive "gpuwhy.findings.active" Gauge Each("{finding}"), ["class", "severity"]
        "Findings of the last minute, by the class of their largest cause";
    Findings "gpuwhy.findings" Counter Each("{finding}"), ["class", "severity"]
        "Findings since the start; one that gets worse counts again, with its new severity";
    GpuInfo "gpuwhy.gpu.info" Gauge Each("{gpu}"), ["gpu", "mig", "uuid", "name"]
        "1 for each GPU";
    GpuUtilization "gpuwhy.gpu.utilization" Gauge Ratio, ["gpu", "mig"]
        "Time in which kernels ran";
    GpuSmActive "gpuwhy.gpu.sm.active" Gauge Ratio, ["gpu", "mig"]
        "Multiprocessors with work, averaged (GPM: Hopper and newer)";
    GpuSmOccupancy "gpuwhy.gpu.sm.occupancy" Gauge Ratio, ["gpu", "mig"]
        "Warps resident, of those that fit (GPM)";
    GpuTensorActive "gpuwhy.gpu.tensor.active" Gauge Ratio, ["gpu", "mig"]
        "Time in which tensor cores were busy (GPM)";
    GpuDramActive "gpuwhy.gpu.dram.active" Gauge Ratio, ["gpu", "mig"]
        "Time in which device memory was moved (GPM)";
    GpuMemoryUsed "gpuwhy.gpu.memory.used" Gauge Bytes, ["gpu", "mig"]
        "Device memory in use, by whomever";
    GpuMemoryTotal "gpuwhy.gpu.memory.total" Gauge Bytes, ["gpu", "mig"]
        "Device memory";
    GpuPower "gpuwhy.gpu.power" Gauge Watts, ["gpu", "mig"]
        "Power drawn";
    GpuPowerLimit "gpuwhy.gpu.power.limit" Gauge Watts, ["gpu", "mig"]
        "Power it may draw";
    GpuTemperature "gpuwhy.gpu.temperature" Gauge Celsius, ["gpu", "mig"]
        "Temperature";
    GpuSmClock "gpuwhy.gpu.sm.clock" Gauge Hertz, ["gpu", "mig"]
        "Clock of the multiprocessors";
    GpuMemoryClock "gpuwhy.gpu.memory.clock" Gauge Hertz, ["gpu", "mig"]
        "Clock of the memory";
    GpuClocksHeld "gpuwhy.gpu.clocks.held" Gauge Each("{reason}"), ["gpu", "mig", "reason"]
        "1 while the reason holds the clocks down, 0 when it did before";
    GpuPcieReceived "gpuwhy.gpu.pcie.receive" Gauge BytesPerSecond, ["gpu", "mig"]
        "Received over PCIe";
    GpuPcieSent "gpuwhy.gpu.pcie.transmit" Gauge BytesPerSecond, ["gpu", "mig"]
        "Sent over PCIe";
    GpuNvlinkReceived "gpuwhy.gpu.nvlink.receive" Gauge BytesPerSecond, ["gpu", "mig"]
        "Received over NVLink";
    GpuNvlinkSent "gpuwhy.gpu.nvlink.transmit" Gauge BytesPerSecond, ["gpu", "mig"]
        "Sent over NVLink";
    GpuHardwareErrors "gpuwhy.gpu.hardware.errors" Counter Each("{error}"), ["gpu", "mig", "counter"]
        "By how much error counters of the GPU rose in this trace: pcie_replays, nvlink, ecc_corrected, ecc_uncorrected";
    GpuErrors "gpuwhy.gpu.errors" Counter Each("{error}"), ["gpu", "event", "code"]
        "Errors GPUs reported: event is xid or ecc, code the Xid's number";
    FabricErrors "gpuwhy.fabric.errors" Counter Each("{error}"), ["device", "counter"]
        "By how much error and congestion counters of RDMA ports rose, and asynchronous events";
    Lost "gpuwhy.records.lost" Counter Each("{record}"), ["probe", "reason"]
        "Records lost on the way; everything else that is not seen is told by gpuwhy.probes";
    Probes "gpuwhy.probes" Gauge Each("{probe}"), ["probe", "state"]
        "Functions and tracepoints by state: attached, degraded, refused or absent";
    WatchCost "gpuwhy.watch.cost" Counter Seconds, ["process", "rank", "pod"]
        "What being watched cost the threads of a process";
    WatchCalls "gpuwhy.watch.calls" Counter Each("{call}"), ["process", "rank", "pod"]
        "Calls that were trapped";
    Processes "gpuwhy.processes" Gauge Each("{process}"), []
        "Traced processes that live";
    AgentCpu "gpuwhy.agent.cpu" Counter Seconds, []
        "CPU time of gpuwhy itself";
    AgentMemory "gpuwhy.agent.memory" Gauge Bytes, []
        "Resident memory of gpuwhy itself";
    AgentInfo "gpuwhy.agent.info" Gauge Each("{agent}"), ["version"]
        "1";
    OtlpSent "gpuwhy.otlp.sent" Counter Each("{item}"), ["signal"]
        "Data points (metrics), records (logs) and spans (traces) the OTLP server has taken";
    OtlpDropped "gpuwhy.otlp.dropped" Counter Each("{item}"), ["signal", "reason"]
        "Those that were given up: queue (it was full), refused, rejected (in part), end (of the trace)";
    OtlpRetries "gpuwhy.otlp.retries" Counter Each("{request}"), []
        "Requests sent again";
    OtlpQueue "gpuwhy.otlp.queue" Gauge Bytes, []
        "What waits to be sent";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_metric_is_found_by_its_id_and_named_once() {
        let mut names = HashSet::new();
        for (place, metric) in METRICS.iter().enumerate() {
            assert_eq!(metric.id as usize, place);
            assert_eq!(metric.id.metric(), metric);
            assert!(names.insert(metric.prometheus_name()), "{} twice", metric.name);
            assert!(metric.name.starts_with("gpuwhy.") && !metric.about.is_empty());
        }
    }

    #[test]
    fn names_are_those_prometheus_makes_of_otlp() {
        let name = |id: Id| id.metric().prometheus_name();
        assert_eq!(name(Id::Calls), "gpuwhy_calls_total");
        assert_eq!(name(Id::CallDuration), "gpuwhy_call_duration_seconds");
        assert_eq!(name(Id::Blame), "gpuwhy_blame_seconds_total");
        assert_eq!(name(Id::GpuUtilization), "gpuwhy_gpu_utilization_ratio");
        assert_eq!(name(Id::GpuPcieSent), "gpuwhy_gpu_pcie_transmit_bytes_per_second");
    }

    /// A share is no counter, and labels that say whose it is come last: both are relied upon.
    #[test]
    fn units_and_labels_are_as_they_must_be() {
        for metric in METRICS {
            assert!(metric.unit != Unit::Ratio || metric.kind == Kind::Gauge, "{}", metric.name);
            assert!(metric.kind != Kind::Histogram || metric.unit == Unit::Seconds, "{}", metric.name);
            assert_eq!(metric.labels.contains(&"process"), metric.is_owned(), "{}", metric.name);
            let distinct: HashSet<_> = metric.labels.iter().collect();
            assert_eq!(distinct.len(), metric.labels.len(), "{}", metric.name);
        }
    }
}
