//! What NVML says of a GPU, as points.

use crate::Id;
use crate::points::{Points, Text, clean};
use gpuwhy_model::{GpuError, GpuSample};
use std::collections::HashMap;

/// Error counters when they were first read, by labels: they count from when the driver was loaded.
pub(crate) type Counters = HashMap<Vec<Text>, u64>;

pub(crate) fn take_sample(points: &mut Points, counters: &mut Counters, sample: &GpuSample) {
    let gpu: Text = sample.gpu.to_string().into();
    let mig = clean(sample.mig.as_deref().unwrap_or_default());
    let with = |label: Text| vec![gpu.clone(), mig.clone(), label];
    points.set(Id::GpuInfo, vec![gpu.clone(), mig.clone(), clean(&sample.uuid), clean(&sample.name)], 1.0);
    for (id, value) in gauges(sample) {
        // What the GPU does not tell is no zero.
        if let Some(value) = value {
            points.set(id, vec![gpu.clone(), mig.clone()], value);
        }
    }
    for reason in known_reasons(points, &gpu, &mig) {
        points.set(Id::GpuClocksHeld, with(reason), 0.0);
    }
    for reason in &sample.throttle_reasons {
        points.set(Id::GpuClocksHeld, with(clean(reason)), 1.0);
    }
    for (name, value) in [
        ("pcie_replays", sample.pcie_replays),
        ("nvlink", sample.nvlink_errors),
        ("ecc_corrected", sample.ecc_corrected),
        ("ecc_uncorrected", sample.ecc_uncorrected),
    ] {
        let Some(value) = value else { continue };
        let labels = with(name.into());
        let first = *counters.entry(labels.clone()).or_insert(value);
        points.set_count(Id::GpuHardwareErrors, labels, value.saturating_sub(first));
    }
}

fn gauges(sample: &GpuSample) -> [(Id, Option<f64>); 16] {
    let share = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    let watts = |milliwatts: Option<u64>| milliwatts.map(|milliwatts| milliwatts as f64 / 1e3);
    let hertz = |megahertz: Option<u32>| megahertz.map(|megahertz| f64::from(megahertz) * 1e6);
    [
        (Id::GpuUtilization, share(sample.sm_pct)),
        (Id::GpuSmActive, share(sample.sm_active_pct)),
        (Id::GpuSmOccupancy, share(sample.sm_occupancy_pct)),
        (Id::GpuTensorActive, share(sample.tensor_active_pct)),
        (Id::GpuDramActive, share(sample.dram_active_pct)),
        (Id::GpuMemoryUsed, whole(sample.memory_used_bytes)),
        (Id::GpuMemoryTotal, whole(sample.memory_total_bytes)),
        (Id::GpuPower, watts(sample.power_mw)),
        (Id::GpuPowerLimit, watts(sample.power_limit_mw)),
        (Id::GpuTemperature, sample.temperature_c.map(f64::from)),
        (Id::GpuSmClock, hertz(sample.sm_clock_mhz)),
        (Id::GpuMemoryClock, hertz(sample.memory_clock_mhz)),
        (Id::GpuPcieReceived, whole(sample.pcie_rx_bytes_per_s)),
        (Id::GpuPcieSent, whole(sample.pcie_tx_bytes_per_s)),
        (Id::GpuNvlinkReceived, whole(sample.nvlink_rx_bytes_per_s)),
        (Id::GpuNvlinkSent, whole(sample.nvlink_tx_bytes_per_s)),
    ]
}

/// Reasons that held this GPU's clocks at some time.
fn known_reasons(points: &Points, gpu: &Text, mig: &Text) -> Vec<Text> {
    let family = points.families().find(|(metric, _)| metric.id == Id::GpuClocksHeld);
    let keys = family.into_iter().flat_map(|(_, series)| series.keys());
    keys.filter(|key| &key[0] == gpu && &key[1] == mig).map(|key| key[2].clone()).collect()
}

pub(crate) fn take_error(points: &mut Points, error: &GpuError) {
    let gpu = error.gpu.map_or_else(|| clean(&error.device), |gpu| gpu.to_string().into());
    points.count(Id::GpuErrors, vec![gpu, clean(&error.event), error.code.to_string().into()], 1);
}
