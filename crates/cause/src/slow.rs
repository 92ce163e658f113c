//! What counts as slow: an operation is its own measure.

use gpuwhy_model::Histogram;

/// Fewer calls than this say nothing about what is normal.
const MIN_CALLS: u64 = 1_000;
/// A call that takes several times the usual is worth keeping; the factor is above ordinary jitter of calls.
const TIMES_MEDIAN: u64 = 8;
/// Below this a call cannot have stalled anything, and its trap alone is a good part of it.
const FLOOR_NS: u64 = 20_000;

/// The duration from which calls with this history are kept for being slow, or nothing where history is too short.
/// At most about one in a thousand is, so that keeping stays cheap when many are slow alike.
pub fn slow_limit_ns(history: &Histogram) -> Option<u64> {
    (history.total() >= MIN_CALLS).then(|| {
        let by_median = history.quantile_ns(0.5).saturating_mul(TIMES_MEDIAN);
        by_median.max(history.quantile_ns(0.999)).max(FLOOR_NS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_its_own_measure() {
        let mut history = Histogram::default();
        for _ in 0..999 {
            history.record(10_000);
        }
        assert_eq!(slow_limit_ns(&history), None);
        history.record(10_000);
        let limit = slow_limit_ns(&history).unwrap();
        assert!((70_000..100_000).contains(&limit), "{limit}");
    }

    #[test]
    fn tiny_calls_have_a_floor() {
        let mut history = Histogram::default();
        for _ in 0..2_000 {
            history.record(500);
        }
        assert_eq!(slow_limit_ns(&history), Some(FLOOR_NS));
    }
}
