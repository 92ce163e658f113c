//! The GPU itself and the fabric: what NVML and sysfs say.

use serde::{Deserialize, Serialize};

/// Counters of one GPU at one moment. What the GPU or its driver does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GpuSample {
    pub time_ns: u64,
    /// The driver's number of it.
    pub gpu: u32,
    pub uuid: String,
    /// The instance, where it is a part of a divided GPU (MIG): `GI/CI`.
    pub mig: Option<String>,
    pub name: String,
    pub sm_pct: Option<f64>,
    pub memory_pct: Option<f64>,
    pub memory_used_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub power_mw: Option<u64>,
    pub power_limit_mw: Option<u64>,
    pub temperature_c: Option<u32>,
    pub sm_clock_mhz: Option<u32>,
    pub sm_clock_max_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    /// Why the clocks are lower than they could be: names as `hw_thermal`, `sw_power_cap`.
    pub throttle_reasons: Vec<String>,
    pub pcie_rx_bytes_per_s: Option<u64>,
    pub pcie_tx_bytes_per_s: Option<u64>,
    pub pcie_generation: Option<u32>,
    pub pcie_generation_max: Option<u32>,
    pub pcie_width: Option<u32>,
    pub pcie_width_max: Option<u32>,
    /// Since the driver was loaded.
    pub pcie_replays: Option<u64>,
    pub nvlink_rx_bytes_per_s: Option<u64>,
    pub nvlink_tx_bytes_per_s: Option<u64>,
    pub nvlink_active: Option<u32>,
    pub nvlink_total: Option<u32>,
    /// CRC, replay and recovery errors of all links, since the driver was loaded.
    pub nvlink_errors: Option<u64>,
    pub ecc_corrected: Option<u64>,
    pub ecc_uncorrected: Option<u64>,
    /// From GPM (Hopper and newer), over the time since the last sample.
    pub graphics_pct: Option<f64>,
    pub sm_occupancy_pct: Option<f64>,
    pub sm_active_pct: Option<f64>,
    pub dram_active_pct: Option<f64>,
    pub tensor_active_pct: Option<f64>,
    pub processes: Vec<GpuProcess>,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuProcess {
    pub pid: u32,
    pub memory_bytes: Option<u64>,
}

/// An error a GPU reported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuError {
    pub time_ns: u64,
    /// `xid` or `ecc`.
    pub event: String,
    pub gpu: Option<u32>,
    pub uuid: String,
    /// As the driver names it on the PCI bus, or empty.
    pub device: String,
    pub code: i64,
    pub pid: Option<u32>,
    pub message: String,
    /// Who told: `tracepoint` or `nvml`.
    pub source: String,
}

/// A port's counter that rose, or an asynchronous event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RdmaEvent {
    pub time_ns: u64,
    /// `counter`, or the name of an asynchronous event such as `IBV_EVENT_PORT_ERR`.
    pub event: String,
    pub device: String,
    pub port: Option<u32>,
    pub counter: String,
    pub value: Option<u64>,
    pub delta: Option<u64>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
}
