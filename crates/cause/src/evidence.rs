//! Everything `explain` may look at, as values: sums and rows of a trace, read by somebody else. Order does not matter.

use crate::activity::Activity;
use gpuwhy_model::{
    Blame, CallInFlight, Cause, Coverage, Estimate, Frame, GpuError, Histogram, MemoryFailure, MemoryKind,
    MemoryUse, Neighbour, OomEvent, OpInfo, Part, Process, RdmaEvent, ServerSample, Span, units,
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The time that was asked about.
    pub span: Span,
    pub node: Option<String>,
    pub coverage: Coverage,
    pub ops: BTreeMap<String, OpInfo>,
    pub processes: Vec<Process>,
    pub neighbours: Vec<Neighbour>,
    pub sums: Vec<OpSums>,
    /// Of calls that another tool has stored: without the parts of their time.
    pub stored: Vec<OpSums>,
    /// Calls by window, of launches, copies and graphs: what a process got done.
    pub paces: Vec<Pace>,
    pub attribution: Vec<AttributedTime>,
    pub sites: Vec<Site>,
    pub frames: BTreeMap<i64, Vec<Frame>>,
    pub waits: Vec<LongWait>,
    pub wait_sites: Vec<WaitSite>,
    pub cold_calls: Vec<ColdCall>,
    pub graphs: Vec<GraphSum>,
    pub kernels: Vec<KernelLaunches>,
    pub memory: Vec<MemoryUse>,
    pub memory_failures: Vec<MemoryFailure>,
    pub holders: Vec<HeldMemory>,
    pub gpu_times: Vec<StreamTime>,
    pub gpus: Vec<GpuSum>,
    pub gpu_errors: Vec<GpuError>,
    pub failed_calls: Vec<FailedCalls>,
    pub fabric: Vec<RdmaEvent>,
    pub collectives: Vec<Arrival>,
    pub unordered: Vec<Unordered>,
    pub in_flight: Vec<HangingCall>,
    pub retransmits: Vec<Retransmits>,
    pub kills: Vec<OomEvent>,
    /// Processes in the GPU driver.
    pub driver_users: Vec<u32>,
    pub places: Vec<ThreadHome>,
    pub foreign: Vec<ForeignOp>,
    pub tails: Vec<TailSum>,
    /// What programs marked.
    pub marks: Vec<Mark>,
    /// When time was lost; gathered where there is something to compare it with.
    pub losses: Vec<LostAt>,
    pub servers: Vec<ServerSample>,
    pub activity: Activity,
    /// When each process started, where the rows are of that alone.
    pub starts: BTreeMap<u32, Span>,
    /// `start` or `loop`, where the rows are of that phase of each process alone.
    pub phase: Option<String>,
}

/// Launches of one kernel as far as they were watched, since the process began.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelLaunches {
    pub pid: u32,
    pub launches: u64,
    pub last_ns: u64,
}

/// A step, an epoch, a request that somebody marked.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    pub event: String,
    pub value: String,
    /// Nothing for all processes of the user.
    pub pid: Option<u32>,
    /// Root's are about all.
    pub uid: u32,
    pub start_ns: u64,
    /// The same for a moment.
    pub end_ns: u64,
}

/// Time that a process lost, and when.
#[derive(Debug, Clone, Default)]
pub struct LostAt {
    pub pid: u32,
    /// Nothing between calls.
    pub op: Option<String>,
    /// Nothing for a call that took longer than usual.
    pub cause: Option<Cause>,
    pub start_ns: u64,
    pub end_ns: u64,
    pub ns: u64,
}

/// Kept calls of an operation at and above a quantile.
#[derive(Debug, Clone, Default)]
pub struct TailSum {
    /// Nothing for all processes together.
    pub pid: Option<u32>,
    pub op: String,
    pub quantile: String,
    pub p_ns: u64,
    pub blame: Blame,
}

/// All calls of an operation by a process.
#[derive(Debug, Clone, Default)]
pub struct OpSums {
    pub pid: u32,
    pub op: String,
    pub first_ns: u64,
    pub last_ns: u64,
    pub count: u64,
    pub errors: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub hist: Histogram,
    pub blame: Blame,
    /// Of them, calls in windows in which the GPU's own counter says that it was busy, and their time on the CPU.
    pub busy_count: u64,
    pub busy_oncpu_ns: u64,
    /// Share of the time in which they were watched, where that was not all the time.
    pub watched_pct: Option<f64>,
    /// The count with its interval, where it was scaled: sums are, too. Without it they are the least there was.
    pub estimate: Option<Estimate>,
}

impl OpSums {
    /// Whether too little was watched to tell how many there were: there are at least as many as `count`.
    pub fn is_partial(&self) -> bool {
        self.watched_pct.is_some() && self.estimate.is_none()
    }

    /// How many calls each that was watched stands for.
    pub fn factor(&self) -> f64 {
        match self.hist.total() {
            watched if watched > 0 && self.estimate.is_some() => self.count as f64 / watched as f64,
            _ => 1.0,
        }
    }

    pub fn interval(&self) -> Option<[u64; 2]> {
        self.estimate.map(|estimate| [estimate.low, estimate.high].map(|calls| calls.round() as u64))
    }

    /// The count as people read it: `12,345`, `about 12,300 (11,900 to 12,700), watched 9% of the time`.
    pub fn calls(&self) -> String {
        match (self.estimate, self.watched_pct) {
            (Some(estimate), _) => units::estimate(&estimate),
            (None, Some(pct)) => {
                format!("at least {}, watched {pct:.0}% of the time", units::count(self.count))
            }
            (None, None) => units::count(self.count),
        }
    }

    /// Of copies: what their bytes take at the slowest, one a nanosecond, which pageable memory reaches on every link. What
    /// a call takes beyond that it waits for queued work.
    pub fn bytes_ns(&self) -> u64 {
        self.bytes
    }

    /// The time of all calls beyond what they would have taken at the median.
    pub fn beyond_median_ns(&self) -> u64 {
        self.sum_ns.saturating_sub(self.count.saturating_mul(self.quantile_ns(0.5)))
    }

    /// Adds calls of another process, or of another time.
    pub fn merge(&mut self, other: &OpSums) {
        let exact = Estimate::exact;
        let before = self.count;
        let is_partial = self.is_partial() || other.is_partial();
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.hist.merge(&other.hist);
        self.blame.add(&other.blame);
        self.estimate = match (self.estimate, other.estimate) {
            _ if is_partial => None,
            (None, None) => None,
            (own, others) => {
                Some(own.map_or(exact(before), |own| own).plus(&others.unwrap_or(exact(other.count))))
            }
        };
        self.watched_pct = match (self.watched_pct, other.watched_pct) {
            (Some(own), Some(others)) => Some(own.min(others)),
            (own, others) => own.or(others),
        };
    }

    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.hist.quantile_ns(q).min(self.max_ns)
    }
}

/// What a process got done in a window.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub calls: u64,
    pub longest_ns: u64,
}

/// Time of a thread billed to a cause and a culprit, summed over the windows.
#[derive(Debug, Clone)]
pub struct AttributedTime {
    pub pid: u32,
    pub tid: u32,
    /// Nothing between calls.
    pub op: Option<String>,
    pub cause: Cause,
    /// 0 for nobody.
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_comm: String,
    pub by_cgroup_id: u64,
    pub ns: u64,
    pub count: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// Kept calls of an operation made at the same place.
#[derive(Debug, Clone)]
pub struct Site {
    pub pid: u32,
    pub op: String,
    pub stack_id: i64,
    /// Name of the kernel, of launches.
    pub kernel: Option<String>,
    pub calls: u64,
    pub ns: u64,
    /// Of them, those kept for being slow.
    pub slow_ns: u64,
}

/// Waits that were told one by one, by what was waited for.
#[derive(Debug, Clone, Default)]
pub struct LongWait {
    pub pid: u32,
    pub tid: u32,
    pub op: Option<String>,
    /// As in the event tables: `futex`, `file`, `socket`, ...
    pub event: String,
    pub file: Option<String>,
    pub device: Option<String>,
    pub peer: Option<String>,
    pub by_comm: String,
    pub stack_id: Option<i64>,
    pub ns: u64,
    pub count: u64,
}

/// Where a thread was met while it waited between calls, and how often.
#[derive(Debug, Clone)]
pub struct WaitSite {
    pub pid: u32,
    pub tid: u32,
    pub part: Part,
    pub stack_id: i64,
    pub ns: u64,
}

/// A call that loaded, compiled or made something ready for the first time.
#[derive(Debug, Clone)]
pub struct ColdCall {
    pub pid: u32,
    pub op: String,
    pub event: String,
    pub name: String,
    pub start_ns: u64,
    pub duration_ns: u64,
    pub blame: Blame,
    pub stack_id: Option<i64>,
}

/// The graphs of a process.
#[derive(Debug, Clone, Default)]
pub struct GraphSum {
    pub pid: u32,
    pub graphs: u64,
    pub capture_ns: u64,
    pub instantiate_ns: u64,
    pub launches: u64,
    pub updates: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub stack_id: Option<i64>,
}

/// Live device memory by call site.
#[derive(Debug, Clone)]
pub struct HeldMemory {
    pub pid: u32,
    pub op: Option<String>,
    pub kind: MemoryKind,
    pub stack_id: Option<i64>,
    pub bytes: u64,
    pub count: u64,
    pub oldest_ns: u64,
    pub newest_ns: u64,
}

/// The streams of a process in a window.
#[derive(Debug, Clone, Copy)]
pub struct StreamTime {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub launches: u64,
    pub busy_lower_ns: u64,
    pub busy_upper_ns: u64,
}

/// Samples of a GPU's counters.
#[derive(Debug, Clone, Default)]
pub struct GpuSum {
    pub gpu: u32,
    pub name: String,
    pub samples: u64,
    /// Samples by reason for lower clocks.
    pub throttled: BTreeMap<String, u64>,
    pub sm_pct: Option<f64>,
    pub clock_mhz: Option<f64>,
    pub clock_while_throttled_mhz: Option<f64>,
    pub clock_max_mhz: Option<f64>,
    pub temperature_c: Option<u32>,
    pub power_mw: Option<u64>,
    pub power_limit_mw: Option<u64>,
    /// The most, and its process that used most.
    pub memory_used_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub largest: Option<(u32, u64)>,
}

/// Calls of an operation that returned the same error.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls {
    pub pid: u32,
    pub op: String,
    pub ret: i32,
    pub count: u64,
    pub ns: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub stack_id: Option<i64>,
}

/// A rank's arrival at a collective.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub comm: String,
    pub seq: u64,
    pub rank: i32,
    pub nranks: i32,
    pub pid: u32,
    /// The function, as `ncclAllReduce`.
    pub op: String,
    pub start_ns: u64,
    pub duration_ns: u64,
    pub count: Option<u64>,
    pub datatype: Option<String>,
    pub reduce_op: Option<String>,
    pub bytes: Option<u64>,
    pub stack_id: Option<i64>,
}

/// Collectives of a process on communicators that were made unseen.
#[derive(Debug, Clone)]
pub struct Unordered {
    pub pid: u32,
    /// The function, as `ncclAllReduce`.
    pub op: String,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    pub calls: u64,
    pub ns: u64,
    pub first_ns: u64,
}

#[derive(Debug, Clone)]
pub struct HangingCall {
    pub call: CallInFlight,
    pub op: String,
}

/// Segments sent again on a connection.
#[derive(Debug, Clone, Default)]
pub struct Retransmits {
    pub pid: u32,
    pub rank: Option<i32>,
    pub local: String,
    pub remote: String,
    pub count: u64,
    pub bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// Where a launching thread runs, where its memory lies and its GPU.
#[derive(Debug, Clone, Default)]
pub struct ThreadHome {
    pub pid: u32,
    pub tid: u32,
    pub node: u32,
    pub node_migrations: u64,
    /// Bytes of its process by memory node.
    pub memory: Vec<(u32, u64)>,
    pub gpu: Option<u16>,
    pub gpu_node: Option<u32>,
}

/// An operation as another tool recorded it: no blame clock, rows that are a biased sample.
#[derive(Debug, Clone, Default)]
pub struct ForeignOp {
    pub pid: u32,
    pub process: Option<String>,
    pub op: String,
    pub calls: u64,
    pub slow_calls: u64,
    pub slow_ns: u64,
    pub off_cpu_ns: u64,
    /// Of the slow time: the first launch of the process in the file.
    pub cold_ns: u64,
    /// Share of the slow time; nothing where the threads were not watched.
    pub off_cpu_pct: Option<f64>,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub sum_ns: u64,
}
