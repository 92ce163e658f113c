//! A GPU over the whole trace: its latest sample, and what its counters were on average and at most.

use gpuwhy_model::GpuSample;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct GpuSum {
    pub first: GpuSample,
    pub last: GpuSample,
    pub samples: u64,
    pub sm_pct: Spread,
    pub sm_active_pct: Spread,
    pub tensor_active_pct: Spread,
    pub dram_active_pct: Spread,
    pub memory_used_bytes: Spread,
    pub power_mw: Spread,
    pub temperature_c: Spread,
    /// In how many samples each reason held the clocks down.
    pub throttled: BTreeMap<String, u64>,
}

/// Mean and maximum of what was told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    pub count: u64,
    pub sum: f64,
    pub max: f64,
}

impl Spread {
    fn take(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.count += 1;
            self.sum += value;
            self.max = self.max.max(value);
        }
    }

    /// Nothing where nothing was told.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl GpuSum {
    pub(super) fn take(&mut self, sample: &GpuSample) {
        if self.samples == 0 {
            self.first = sample.clone();
        }
        self.samples += 1;
        self.sm_pct.take(sample.sm_pct);
        self.sm_active_pct.take(sample.sm_active_pct);
        self.tensor_active_pct.take(sample.tensor_active_pct);
        self.dram_active_pct.take(sample.dram_active_pct);
        self.memory_used_bytes.take(sample.memory_used_bytes.map(|bytes| bytes as f64));
        self.power_mw.take(sample.power_mw.map(|power| power as f64));
        self.temperature_c.take(sample.temperature_c.map(f64::from));
        for reason in &sample.throttle_reasons {
            *self.throttled.entry(reason.clone()).or_default() += 1;
        }
        self.last = sample.clone();
    }

    /// By how much an error counter rose in this trace.
    pub fn rise(&self, counter: fn(&GpuSample) -> Option<u64>) -> u64 {
        match (counter(&self.first), counter(&self.last)) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_told_is_in_no_mean() {
        let mut sum = GpuSum::default();
        let sample = GpuSample { ecc_uncorrected: Some(3), ..GpuSample::default() };
        sum.take(&GpuSample { sm_pct: Some(10.0), ..sample.clone() });
        sum.take(&sample);
        sum.take(&GpuSample { sm_pct: Some(30.0), ecc_uncorrected: Some(4), ..sample });
        assert_eq!((sum.sm_pct.mean(), sum.sm_pct.max), (Some(20.0), 30.0));
        assert_eq!(sum.power_mw.mean(), None);
        assert_eq!(sum.rise(|sample| sample.ecc_uncorrected), 1);
        assert_eq!(sum.rise(|sample| sample.nvlink_errors), 0);
    }
}
