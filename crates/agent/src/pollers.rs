//! What nobody sends by itself: the GPU's counters and errors (NVML) once a second, the fabric's counters every five. A
//! thread of their own reads them: a driver in trouble answers late, and the trace must not wait for it.

use gpuwhy_host::{GpuMeter, RdmaMeter};
use gpuwhy_model::{GpuError, GpuSample, ProbeState, ProbeStatus, RdmaEvent};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

const GPU_EVERY: Duration = Duration::from_secs(1);
const FABRIC_EVERY: Duration = Duration::from_secs(5);
/// How soon the thread notices that it is to end.
const TURN: Duration = Duration::from_millis(50);
const QUEUE: usize = 64;
const FABRIC: &str = "/sys/class/infiniband";

/// What one reading brought.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) statuses: Vec<ProbeStatus>,
    pub(crate) samples: Vec<GpuSample>,
    pub(crate) errors: Vec<GpuError>,
    pub(crate) fabric: Vec<RdmaEvent>,
    /// The GPU of each process that uses exactly one.
    pub(crate) gpus: Vec<(u32, u16)>,
}

/// The thread, as long as this lives.
#[derive(Debug)]
pub(crate) struct Pollers {
    readings: Receiver<Reading>,
    stop: Arc<AtomicBool>,
}

impl Pollers {
    /// `nvml` is a library to use instead of the one installed, `now_ns` the clock of all timestamps of the run.
    pub(crate) fn start(nvml: Option<PathBuf>, now_ns: impl Fn() -> u64 + Send + 'static) -> Pollers {
        let (sender, readings) = sync_channel(QUEUE);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        // Without a thread there are no samples, and nothing else changes.
        let _ = std::thread::Builder::new()
            .name("gpuwhy-pollers".into())
            .spawn(move || run(&sender, &flag, nvml.as_deref(), &now_ns));
        Pollers { readings, stop }
    }

    pub(crate) fn take(&self) -> Vec<Reading> {
        self.readings.try_iter().collect()
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run(sender: &SyncSender<Reading>, stop: &AtomicBool, nvml: Option<&Path>, now_ns: &dyn Fn() -> u64) {
    let mut gpus = nvml.map_or_else(GpuMeter::open, GpuMeter::open_at);
    let mut fabric = RdmaMeter::new(Path::new(FABRIC));
    fabric.read(now_ns());
    let statuses = vec![gpu_status(gpus.as_ref().err(), now_ns()), fabric_status(fabric.ports(), now_ns())];
    let mut reading = Reading { statuses, ..Reading::default() };
    let mut gpus_read: Option<Instant> = None;
    let mut fabric_read = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(meter) = &mut gpus
            && gpus_read.is_none_or(|read| read.elapsed() >= GPU_EVERY)
        {
            gpus_read = Some(Instant::now());
            reading.samples = meter.read(now_ns());
            reading.errors = meter.errors(now_ns());
            reading.gpus = gpus_of_processes(meter, &reading.samples);
        }
        if fabric_read.elapsed() >= FABRIC_EVERY {
            fabric_read = Instant::now();
            reading.fabric = fabric.read(now_ns());
        }
        let empty = reading.statuses.is_empty()
            && reading.samples.is_empty()
            && reading.errors.is_empty()
            && reading.fabric.is_empty();
        // A full queue means that the trace is busy: this reading is left out.
        if !empty {
            let _ = sender.try_send(std::mem::take(&mut reading));
        }
        std::thread::sleep(TURN);
    }
}

fn gpus_of_processes(meter: &GpuMeter, samples: &[GpuSample]) -> Vec<(u32, u16)> {
    let pids = samples.iter().flat_map(|sample| sample.processes.iter().map(|process| process.pid));
    pids.filter_map(|pid| Some((pid, meter.gpu_of_pid(pid)?))).collect()
}

fn gpu_status(why_not: Option<&String>, now_ns: u64) -> ProbeStatus {
    status("nvml", why_not.map(String::as_str), now_ns)
}

fn fabric_status(ports: usize, now_ns: u64) -> ProbeStatus {
    status("rdma counters", (ports == 0).then_some("this host has no RDMA port"), now_ns)
}

fn status(target: &str, why_not: Option<&str>, now_ns: u64) -> ProbeStatus {
    ProbeStatus {
        probe: "gpu".into(),
        target: target.into(),
        file: String::new(),
        state: if why_not.is_some() { ProbeState::Absent } else { ProbeState::Attached },
        flavour: "poll".into(),
        since_ns: now_ns,
        reason: why_not.unwrap_or_default().into(),
    }
}
