//! What nobody sends by itself: the GPU's counters and errors (NVML) once a second, the fabric's counters every five. Threads
//! of their own read them: a driver in trouble answers late, and the trace must not wait for it.

use gpuwhy_confine::{Purpose, live};
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
const GPUS_NAME: &str = "gpuwhy-pollers";
const FABRIC_NAME: &str = "gpuwhy-fabric";
/// Below which the fabric's counters lie, with the devices that they lead to.
const SYSTEM: &str = "/sys";
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

/// The threads, as long as this lives.
#[derive(Debug)]
pub(crate) struct Pollers {
    readings: Receiver<Reading>,
    stop: Arc<AtomicBool>,
}

impl Pollers {
    /// `nvml` is a library to use instead of the one installed, `now_ns` the clock of all timestamps of the run.
    pub(crate) fn start(nvml: Option<PathBuf>, now_ns: impl Fn() -> u64 + Clone + Send + 'static) -> Pollers {
        let (sender, readings) = sync_channel(QUEUE);
        let stop = Arc::new(AtomicBool::new(false));
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            // Without a thread there are no samples, and nothing else changes.
            let _ = std::thread::Builder::new().name(name.into()).spawn(run);
        };
        let (outbox, flag, clock) = (sender.clone(), Arc::clone(&stop), now_ns.clone());
        let gpus = move || {
            // Loading the library may load the driver, which needs everything; asking it does not.
            let mut gpus = nvml.as_deref().map_or_else(GpuMeter::open, GpuMeter::open_at);
            live(GPUS_NAME, &Purpose::Drive, || poll_gpus(&outbox, &flag, &mut gpus, &clock));
        };
        start(GPUS_NAME, Box::new(gpus));
        let flag = Arc::clone(&stop);
        let fabric = move || {
            let mut fabric = RdmaMeter::new(Path::new(FABRIC));
            let purpose = Purpose::Read(SYSTEM.into());
            live(FABRIC_NAME, &purpose, || poll_fabric(&sender, &flag, &mut fabric, &now_ns));
        };
        start(FABRIC_NAME, Box::new(fabric));
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

fn poll_gpus(
    sender: &SyncSender<Reading>,
    stop: &AtomicBool,
    gpus: &mut Result<GpuMeter, String>,
    now_ns: &dyn Fn() -> u64,
) {
    let status = gpu_status(gpus.as_ref().err(), now_ns());
    send(sender, Reading { statuses: vec![status], ..Reading::default() });
    // Where there is no GPU there is nothing more to ask.
    let Ok(meter) = gpus else { return };
    every(GPU_EVERY, stop, || {
        let samples = meter.read(now_ns());
        let errors = meter.errors(now_ns());
        let gpus = gpus_of_processes(meter, &samples);
        send(sender, Reading { samples, errors, gpus, ..Reading::default() });
    });
}

fn poll_fabric(
    sender: &SyncSender<Reading>,
    stop: &AtomicBool,
    fabric: &mut RdmaMeter,
    now_ns: &dyn Fn() -> u64,
) {
    // What has counted up to now is not this trace's.
    fabric.read(now_ns());
    let statuses = vec![fabric_status(fabric.ports(), now_ns())];
    send(sender, Reading { statuses, ..Reading::default() });
    let mut is_first = true;
    every(FABRIC_EVERY, stop, || {
        if !std::mem::take(&mut is_first) {
            send(sender, Reading { fabric: fabric.read(now_ns()), ..Reading::default() });
        }
    });
}

/// At once, and then at intervals until it is to stop.
fn every(interval: Duration, stop: &AtomicBool, mut work: impl FnMut()) {
    let mut worked: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        if worked.is_none_or(|worked| worked.elapsed() >= interval) {
            worked = Some(Instant::now());
            work();
        }
        std::thread::sleep(TURN);
    }
}

fn send(sender: &SyncSender<Reading>, reading: Reading) {
    let empty = reading.statuses.is_empty()
        && reading.samples.is_empty()
        && reading.errors.is_empty()
        && reading.fabric.is_empty();
    // A full queue means that the trace is busy: this reading is left out.
    if !empty {
        let _ = sender.try_send(reading);
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
