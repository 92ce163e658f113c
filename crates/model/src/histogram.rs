//! Duration histograms: log-linear buckets, eight to an octave, the same in the kernel (`bpf/histogram.h`).

use serde::{Deserialize, Serialize};

/// Durations below 64 ns share the first bucket.
const SHIFT: u32 = 6;
/// Eight buckets an octave: a bucket is at most 12.5% wide.
const SUB_BITS: u32 = 3;
/// Up to 36 minutes; longer ones land in the last bucket.
pub const BUCKETS: usize = 264;

/// The bucket of a duration.
pub fn bucket_of(ns: u64) -> usize {
    let units = ns >> SHIFT;
    if units < 1 << SUB_BITS {
        return units as usize;
    }
    let exponent = 63 - units.leading_zeros();
    let sub = (units >> (exponent - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    ((((exponent - SUB_BITS + 1) as usize) << SUB_BITS) + sub).min(BUCKETS - 1)
}

/// Lower (inclusive) and upper (exclusive) bound of a bucket in nanoseconds.
pub fn bucket_range(bucket: usize) -> (u64, u64) {
    let octave = (bucket >> SUB_BITS) as u32;
    let sub = (bucket & ((1 << SUB_BITS) - 1)) as u64;
    if octave == 0 {
        return (sub << SHIFT, (sub + 1) << SHIFT);
    }
    let lower = ((1 << SUB_BITS) + sub) << (octave - 1 + SHIFT);
    (lower, lower + (1 << (octave - 1 + SHIFT)))
}

/// Counts by bucket, only those that are not zero, in order of bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// From all buckets in order, zeros included.
    pub fn from_dense(counts: impl IntoIterator<Item = u64>) -> Self {
        let counts =
            counts.into_iter().enumerate().filter(|(_, n)| *n > 0).map(|(i, n)| (i as u16, n)).collect();
        Histogram { counts }
    }

    pub fn counts(&self) -> &[(u16, u64)] {
        &self.counts
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, n)| n).sum()
    }

    pub fn record(&mut self, ns: u64) {
        self.add_bucket(bucket_of(ns) as u16, 1);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for &(bucket, n) in &other.counts {
            self.add_bucket(bucket, n);
        }
    }

    pub fn add_bucket(&mut self, bucket: u16, n: u64) {
        match self.counts.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(n),
            Err(at) => self.counts.insert(at, (bucket, n)),
        }
    }

    /// The duration below which a share `q` of the calls lies, interpolated within its bucket; 0 when empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let total = self.total();
        if total == 0 {
            return 0;
        }
        let rank = (q.clamp(0.0, 1.0) * total as f64).max(1.0);
        let mut below = 0u64;
        for &(bucket, n) in &self.counts {
            if (below + n) as f64 >= rank {
                let (lower, upper) = bucket_range(bucket as usize);
                let within = (rank - below as f64) / n as f64;
                return lower + ((upper - lower) as f64 * within) as u64;
            }
            below += n;
        }
        self.counts.last().map_or(0, |(bucket, _)| bucket_range(*bucket as usize).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_within_its_bucket() {
        for exponent in 0..41 {
            for offset in [0u64, 1, 3, 7] {
                let ns = (1u64 << exponent) + (offset << exponent) / 8;
                let (lower, upper) = bucket_range(bucket_of(ns));
                assert!(lower <= ns && ns < upper, "{ns} not in {lower}..{upper}");
            }
        }
    }

    #[test]
    fn buckets_are_contiguous() {
        for bucket in 1..BUCKETS {
            assert_eq!(bucket_range(bucket - 1).1, bucket_range(bucket).0);
            assert_eq!(bucket_of(bucket_range(bucket).0), bucket);
        }
    }

    #[test]
    fn quantiles_of_known_data_are_within_a_bucket() {
        let mut hist = Histogram::default();
        for us in 1..=1000 {
            hist.record(us * 1000);
        }
        for (q, us) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let got = hist.quantile_ns(q) as f64 / 1000.0;
            assert!((got - us).abs() / us < 0.125, "p{q}: {got} us");
        }
    }

    #[test]
    fn too_long_goes_into_the_last_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
