//! How busy the parts of a GPU were since the last reading, by GPM: the difference of two samples.

use super::asked::Asked;
use gpuwhy_nvml::{Error, Metric, Sample};

const METRICS: &[Metric] = &[
    Metric::GraphicsUtil,
    Metric::SmOccupancy,
    Metric::SmUtil,
    Metric::DramBwUtil,
    Metric::AnyTensorUtil,
    Metric::PcieTxPerSec,
    Metric::PcieRxPerSec,
    Metric::NvlinkTotalTxPerSec,
    Metric::NvlinkTotalRxPerSec,
];

/// GPM tells traffic in MiB a second.
const MIB: f64 = 1024.0 * 1024.0;

/// Percentages, and traffic in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Activity {
    pub(super) graphics_pct: Option<f64>,
    pub(super) sm_occupancy_pct: Option<f64>,
    pub(super) sm_active_pct: Option<f64>,
    pub(super) dram_active_pct: Option<f64>,
    pub(super) tensor_active_pct: Option<f64>,
    pub(super) pcie_tx: Option<u64>,
    pub(super) pcie_rx: Option<u64>,
    pub(super) nvlink_tx: Option<u64>,
    pub(super) nvlink_rx: Option<u64>,
}

/// Keeps the last sample.
#[derive(Debug, Default)]
pub(super) struct ActivityMeter {
    last: Option<Sample>,
}

impl ActivityMeter {
    pub(super) fn read(
        &mut self,
        asked: &mut Asked,
        sample: impl FnOnce() -> Result<Sample, Error>,
    ) -> Activity {
        // A sample that failed leaves a gap, and a difference across the gap would be of another time.
        let earlier = self.last.take();
        self.last = asked.ask("gpm sample", sample);
        let (Some(earlier), Some(now)) = (&earlier, &self.last) else { return Activity::default() };
        asked
            .ask("gpm metrics", || now.since(earlier, METRICS))
            .map(|values| from_metrics(&values))
            .unwrap_or_default()
    }
}

/// From values in the order of [`METRICS`].
fn from_metrics(values: &[Option<f64>]) -> Activity {
    let of = |metric| values.get(METRICS.iter().position(|known| *known == metric)?).copied().flatten();
    let pct = |metric| of(metric).map(|value: f64| value.clamp(0.0, 100.0));
    let bytes = |metric| of(metric).map(|mib: f64| (mib.max(0.0) * MIB) as u64);
    Activity {
        graphics_pct: pct(Metric::GraphicsUtil),
        sm_occupancy_pct: pct(Metric::SmOccupancy),
        sm_active_pct: pct(Metric::SmUtil),
        dram_active_pct: pct(Metric::DramBwUtil),
        tensor_active_pct: pct(Metric::AnyTensorUtil),
        pcie_tx: bytes(Metric::PcieTxPerSec),
        pcie_rx: bytes(Metric::PcieRxPerSec),
        nvlink_tx: bytes(Metric::NvlinkTotalTxPerSec),
        nvlink_rx: bytes(Metric::NvlinkTotalRxPerSec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_find_their_places() {
        let values =
            [Some(40.0), Some(12.5), Some(100.4), None, Some(3.0), Some(2.0), None, Some(0.5), Some(1.0)];
        let activity = from_metrics(&values);
        assert_eq!((activity.graphics_pct, activity.sm_occupancy_pct), (Some(40.0), Some(12.5)));
        assert_eq!(activity.sm_active_pct, Some(100.0));
        assert_eq!(activity.dram_active_pct, None);
        assert_eq!(activity.tensor_active_pct, Some(3.0));
        assert_eq!((activity.pcie_tx, activity.pcie_rx), (Some(2 << 20), None));
        assert_eq!((activity.nvlink_tx, activity.nvlink_rx), (Some(1 << 19), Some(1 << 20)));
        assert_eq!(from_metrics(&[]), Activity::default());
    }
}
