//! Durations as both kinds of histograms, from the kernel's own, which has eight buckets of equal width to an octave of
//! nanoseconds. Counts and sums are exact in both.
//!
//! **Classic** buckets are whole octaves: each bound is one nanosecond below a power of two, where buckets of the kernel
//! end, so every call is on its right side. **Native** (exponential) buckets of scale 3 are powers of the eighth root of
//! two in seconds, where none of the kernel's end: a bucket of the kernel goes as a whole to where its middle lies, so a
//! call is shown at most half of that bucket, 6.25%, from where it was.

use gpuwhy_model::{Histogram, bucket_of, bucket_range};
use std::collections::BTreeMap;

/// The first and last power of two of nanoseconds: 1 us and 69 s.
const OCTAVES: std::ops::RangeInclusive<u32> = 10..=36;

/// Eight buckets to a power of two, as the kernel has.
pub(crate) const SCALE: i32 = 3;

/// All calls of one series.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Distribution {
    hist: Histogram,
    sum_ns: u64,
    /// The latest slow call of each classic bucket, the last for what is beyond all bounds.
    exemplars: BTreeMap<usize, Exemplar>,
}

/// A call that stands for a bucket, and where it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    /// When it began: `timestamp_ns` in the trace file.
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) stack_id: Option<i64>,
}

impl Exemplar {
    /// As labels; together shorter than the 128 characters OpenMetrics allows.
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        let mut labels = vec![
            ("trace_id", hex(&self.trace_id)),
            ("span_id", hex(&self.span_id)),
            ("timestamp_ns", self.start_ns.to_string()),
        ];
        labels.extend(self.stack_id.map(|stack_id| ("stack_id", stack_id.to_string())));
        labels
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Upper bounds of the classic buckets in seconds, inclusive.
pub(crate) fn bounds() -> impl Iterator<Item = f64> {
    OCTAVES.map(|octave| ((1u64 << octave) - 1) as f64 / 1e9)
}

impl Distribution {
    pub(crate) fn add(&mut self, hist: &Histogram, sum_ns: u64) {
        self.hist.merge(hist);
        self.sum_ns += sum_ns;
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.hist.record(ns);
        self.sum_ns += ns;
    }

    pub(crate) fn merge(&mut self, other: Distribution) {
        self.add(&other.hist, other.sum_ns);
        self.exemplars.extend(other.exemplars);
    }

    pub(crate) fn show(&mut self, exemplar: Exemplar) {
        self.exemplars.insert(classic_of(bucket_of(exemplar.duration_ns)), exemplar);
    }

    pub(crate) fn count(&self) -> u64 {
        self.hist.total()
    }

    pub(crate) fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Calls in each classic bucket, not cumulated, with what is beyond all bounds at the end.
    pub(crate) fn classic(&self) -> Vec<u64> {
        let mut counts = vec![0; OCTAVES.count() + 1];
        for &(bucket, n) in self.hist.counts() {
            counts[classic_of(bucket.into())] += n;
        }
        counts
    }

    /// The exemplar of a classic bucket, once the call it is of has been counted.
    pub(crate) fn exemplar(&self, classic: usize) -> Option<&Exemplar> {
        self.exemplars.get(&classic)
    }

    pub(crate) fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        self.exemplars.values()
    }

    /// Calls by native bucket: number `i` is above `2^((i - 1) / 8)` seconds and up to `2^(i / 8)`.
    pub(crate) fn native(&self) -> BTreeMap<i32, u64> {
        let mut counts = BTreeMap::new();
        for &(bucket, n) in self.hist.counts() {
            *counts.entry(native_of(bucket.into())).or_default() += n;
        }
        counts
    }
}

/// The classic bucket that a bucket of the kernel is in.
fn classic_of(bucket: usize) -> usize {
    let (_, upper) = bucket_range(bucket);
    OCTAVES.take_while(|octave| upper > 1 << octave).count()
}

fn native_of(bucket: usize) -> i32 {
    let (lower, upper) = bucket_range(bucket);
    let middle = (lower as f64 + upper as f64) / 2e9;
    (middle.log2() * f64::from(1 << SCALE)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::BUCKETS;

    fn of(durations: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        durations.iter().for_each(|ns| distribution.record(*ns));
        distribution
    }

    #[test]
    fn every_call_is_on_its_side_of_every_classic_bound() {
        let bounds: Vec<f64> = bounds().collect();
        for octave in 6..41u32 {
            for ns in [(1u64 << octave) - 1, 1 << octave, (1 << octave) + 1] {
                let at = of(&[ns]).classic().iter().position(|n| *n == 1).unwrap();
                assert!(at == bounds.len() || ns as f64 / 1e9 <= bounds[at], "{ns}");
                assert!(at == 0 || ns as f64 / 1e9 > bounds[at - 1], "{ns}");
            }
        }
    }

    #[test]
    fn a_native_bucket_is_no_farther_than_half_a_bucket_of_the_kernel() {
        for bucket in 1..BUCKETS {
            let (lower, upper) = bucket_range(bucket);
            let i = f64::from(native_of(bucket));
            let (from, to) = (((i - 1.0) / 8.0).exp2() * 1e9, (i / 8.0).exp2() * 1e9);
            let middle = (lower + upper) as f64 / 2.0;
            assert!(from < middle && middle <= to, "{bucket}");
            // From 512 ns on a bucket is an eighth of its octave at most.
            if lower >= 512 {
                let off = (lower as f64 / to - 1.0).max(from / upper as f64 - 1.0);
                assert!(off <= 0.0625, "{bucket}: {off}");
            }
        }
    }

    #[test]
    fn counts_and_sums_are_the_same_in_both_kinds() {
        let durations = [0, 40, 64, 900, 1023, 1024, 5_000, 48_300_000, 3_000_000_000, 1 << 42];
        let distribution = of(&durations);
        assert_eq!(distribution.count(), durations.len() as u64);
        assert_eq!(distribution.classic().iter().sum::<u64>(), durations.len() as u64);
        assert_eq!(distribution.native().values().sum::<u64>(), durations.len() as u64);
        let sum = durations.iter().sum::<u64>() as f64 / 1e9;
        assert!((distribution.sum_seconds() - sum).abs() < 1e-9);
    }

    #[test]
    fn an_exemplar_is_in_the_bucket_of_its_call_and_fits_openmetrics() {
        let mut distribution = of(&[2_000_000]);
        let exemplar = Exemplar {
            trace_id: [0xff; 16],
            span_id: [0xff; 8],
            start_ns: 1_800_000_000_000_000_000,
            duration_ns: 2_000_000,
            stack_id: Some(i64::MIN),
        };
        distribution.show(exemplar);
        let at = distribution.classic().iter().position(|n| *n == 1).unwrap();
        assert_eq!(distribution.exemplar(at), Some(&exemplar));
        let characters: usize = exemplar.labels().iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(characters <= 128, "{characters}");
    }
}
