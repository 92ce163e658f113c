//! What gpuwhy itself costs: its memory and CPU time.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnCost {
    pub rss_bytes: u64,
    /// Share of one CPU since the last reading.
    pub cpu: f64,
    pub cpu_time: Duration,
}

#[derive(Debug)]
pub struct OwnMeter {
    last: Duration,
    at: Instant,
}

impl Default for OwnMeter {
    fn default() -> Self {
        OwnMeter { last: cpu_time(), at: Instant::now() }
    }
}

impl OwnMeter {
    pub fn read(&mut self) -> OwnCost {
        let (now, at) = (cpu_time(), Instant::now());
        let wall = at.duration_since(self.at).as_secs_f64();
        let cpu = if wall > 0.0 { (now.saturating_sub(self.last)).as_secs_f64() / wall } else { 0.0 };
        (self.last, self.at) = (now, at);
        OwnCost { rss_bytes: rss_bytes(), cpu, cpu_time: now }
    }
}

/// What was allowed at the start, for the command that is traced.
static DESCRIPTORS_AT_START: OnceLock<Rlimit> = OnceLock::new();

/// Enough for as many library files as are ever attached, on kernels that want two descriptors a function.
const DESCRIPTORS: u64 = 1 << 16;

/// Shells allow 1,024 descriptors, which a host with many libraries has no difficulty to use up.
pub(crate) fn raise_descriptor_limit() {
    let before = getrlimit(Resource::Nofile);
    let _ = DESCRIPTORS_AT_START.set(before);
    let enough = |limit: Option<u64>| limit.map(|limit| limit.max(DESCRIPTORS));
    let raised = Rlimit { current: enough(before.current), maximum: enough(before.maximum) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        // Only root may have more than the maximum; what cannot be opened then is refused, one by one.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    }
}

/// What the agent needs is not for the command: some programs go through all descriptors they may have.
pub(crate) fn restore_descriptor_limit(pid: Pid) {
    if let Some(before) = DESCRIPTORS_AT_START.get() {
        // It may have ended already.
        let _ = prlimit(Some(pid), Resource::Nofile, *before);
    }
}

fn rss_bytes() -> u64 {
    let pages: u64 = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = stat
        .rsplit(')')
        .next()
        .map(|rest| {
            rest.split_ascii_whitespace().skip(11).take(2).filter_map(|tick| tick.parse::<u64>().ok()).sum()
        })
        .unwrap_or(0);
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}
