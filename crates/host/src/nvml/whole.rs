//! One GPU and what is kept of it between readings.

use super::activity::ActivityMeter;
use super::asked::Asked;
use super::counters::CounterMeter;
use super::divided::Divided;
use super::error::Identity;
use super::pcie::PcieMeter;
use super::process::processes;
use super::throttle;
use gpuwhy_model::GpuSample;
use gpuwhy_nvml::{Clock, EccCounter, Gpu, MemoryError, Sample, TemperatureSensor};

#[derive(Debug)]
pub(super) struct Whole {
    pub(super) identity: Identity,
    pub(super) gpu: Gpu,
    number: u32,
    limits: Limits,
    asked: Asked,
    activity: ActivityMeter,
    counters: CounterMeter,
    pcie: PcieMeter,
    /// Whether GPM did not tell the PCIe traffic at the last reading, though it was not the first.
    no_pcie_rates: bool,
    was_read: bool,
    loss_reported: bool,
    divided: Divided,
}

/// What the GPU could do at most; asked once, since it is built so.
#[derive(Debug)]
struct Limits {
    sm_clock_mhz: Option<u32>,
    pcie_generation: Option<u32>,
    pcie_width: Option<u32>,
}

impl Whole {
    pub(super) fn new(number: u32, gpu: Gpu) -> Whole {
        let device = gpu.device();
        let identity = Identity {
            gpu: Some(number),
            uuid: device.uuid().unwrap_or_default(),
            name: device.name().unwrap_or_default(),
            device: device.pci_info().map(|info| info.bus_id).unwrap_or_default(),
        };
        let limits = Limits {
            sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
            pcie_generation: device.max_pcie_link_gen().ok(),
            pcie_width: device.max_pcie_link_width().ok(),
        };
        Whole {
            identity,
            number,
            limits,
            gpu,
            asked: Asked::default(),
            activity: ActivityMeter::default(),
            counters: CounterMeter::default(),
            pcie: PcieMeter::default(),
            no_pcie_rates: false,
            was_read: false,
            loss_reported: false,
            divided: Divided::default(),
        }
    }

    /// To be called for all GPUs before the first is read: some figures are differences within a reading.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.asked.begin(now_ns);
        if self.no_pcie_rates {
            self.pcie.begin(&self.gpu, &mut self.asked);
        }
    }

    /// The GPU's sample and those of its parts; none once it is lost.
    pub(super) fn read(&mut self, now_ns: u64) -> Vec<GpuSample> {
        let mut samples = vec![self.sample(now_ns)];
        samples.extend(self.divided.read(now_ns, self.number, &self.gpu, &mut self.asked));
        if self.asked.lost() {
            samples.clear();
        }
        samples
    }

    /// To be called for all GPUs after the last is read, with what `read` gave.
    pub(super) fn end(&mut self, now_ns: u64, samples: &mut [GpuSample]) {
        let Some(whole) = samples.first_mut() else { return };
        let reported = whole.pcie_tx_bytes_per_s.is_some() || whole.pcie_rx_bytes_per_s.is_some();
        if self.no_pcie_rates && !reported {
            (whole.pcie_tx_bytes_per_s, whole.pcie_rx_bytes_per_s) =
                self.pcie.end(now_ns, &self.gpu, &mut self.asked);
        }
        self.no_pcie_rates = self.was_read && !reported;
        self.was_read = true;
    }

    /// Whether it fell off the bus since this was last asked.
    pub(super) fn newly_lost(&mut self) -> bool {
        let was_reported = std::mem::replace(&mut self.loss_reported, self.asked.lost());
        self.loss_reported && !was_reported
    }

    fn sample(&mut self, now_ns: u64) -> GpuSample {
        let asked = &mut self.asked;
        let device = self.gpu.device();
        let activity = self.activity.read(asked, || Sample::of(&self.gpu));
        let counters = self.counters.read(now_ns, &self.gpu, asked);
        // GPM does not tell a link without traffic from no link.
        let has_links = counters.nvlink_total.is_some_and(|links| links > 0);
        let by_gpm = |traffic: Option<u64>| traffic.filter(|_| has_links);
        let utilization = asked.ask("utilization", || device.utilization_rates());
        let memory = asked.ask("memory", || device.memory_info());
        let ecc = |asked: &mut Asked, name, kind| {
            asked.ask(name, || device.total_ecc_errors(kind, EccCounter::Volatile))
        };
        GpuSample {
            time_ns: now_ns,
            gpu: self.number,
            uuid: self.identity.uuid.clone(),
            mig: None,
            name: self.identity.name.clone(),
            sm_pct: utilization.as_ref().map(|utilization| utilization.gpu.into()),
            memory_pct: utilization.as_ref().map(|utilization| utilization.memory.into()),
            memory_used_bytes: memory.as_ref().map(|memory| memory.used),
            memory_total_bytes: memory.as_ref().map(|memory| memory.total),
            power_mw: asked.ask("power", || device.power_usage()).map(Into::into),
            power_limit_mw: asked.ask("power limit", || device.enforced_power_limit()).map(Into::into),
            temperature_c: asked.ask("temperature", || device.temperature(TemperatureSensor::Gpu)),
            sm_clock_mhz: asked.ask("sm clock", || device.clock_info(Clock::SM)),
            sm_clock_max_mhz: self.limits.sm_clock_mhz,
            memory_clock_mhz: asked.ask("memory clock", || device.clock_info(Clock::Memory)),
            throttle_reasons: asked
                .ask("throttle reasons", || device.current_throttle_reasons())
                .map(throttle::names)
                .unwrap_or_default(),
            pcie_rx_bytes_per_s: activity.pcie_rx,
            pcie_tx_bytes_per_s: activity.pcie_tx,
            pcie_generation: asked.ask("pcie generation", || device.current_pcie_link_gen()),
            pcie_generation_max: self.limits.pcie_generation,
            pcie_width: asked.ask("pcie width", || device.current_pcie_link_width()),
            pcie_width_max: self.limits.pcie_width,
            pcie_replays: counters.pcie_replays,
            nvlink_rx_bytes_per_s: counters.nvlink_rx.or(by_gpm(activity.nvlink_rx)),
            nvlink_tx_bytes_per_s: counters.nvlink_tx.or(by_gpm(activity.nvlink_tx)),
            nvlink_active: counters.nvlink_active,
            nvlink_total: counters.nvlink_total,
            nvlink_errors: counters.nvlink_errors,
            ecc_corrected: ecc(asked, "ecc corrected", MemoryError::Corrected),
            ecc_uncorrected: ecc(asked, "ecc uncorrected", MemoryError::Uncorrected),
            graphics_pct: activity.graphics_pct,
            sm_occupancy_pct: activity.sm_occupancy_pct,
            sm_active_pct: activity.sm_active_pct,
            dram_active_pct: activity.dram_active_pct,
            tensor_active_pct: activity.tensor_active_pct,
            processes: processes(&self.gpu, asked),
        }
    }
}
