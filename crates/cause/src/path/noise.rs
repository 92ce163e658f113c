//! How much the steps of a run vary by themselves: what two runs have to differ by before the difference means anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Between which times the median and the mean of a run's steps lie, with 99.9%.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepNoise {
    pub median_ms: [f64; 2],
    pub mean_ms: [f64; 2],
}

/// A run is cut into so many parts: what drifts slowly differs between them, too.
const PARTS: usize = 10;
/// Of a part.
const MIN_STEPS: usize = 2;
/// Student's t for ten values, 99.9% on both sides.
const DEVIATIONS: f64 = 4.78;

/// Of steps in the order of time; nothing where there are too few of them.
pub(crate) fn noise(lengths_ns: &[u64]) -> Option<StepNoise> {
    if lengths_ns.len() < PARTS * MIN_STEPS {
        return None;
    }
    let parts: Vec<&[u64]> = (0..PARTS)
        .map(|part| &lengths_ns[part * lengths_ns.len() / PARTS..(part + 1) * lengths_ns.len() / PARTS])
        .collect();
    let around = |value: f64, of: fn(&[u64]) -> f64| {
        let values: Vec<f64> = parts.iter().map(|part| of(part)).collect();
        let mean = values.iter().sum::<f64>() / PARTS as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64;
        let reach = DEVIATIONS * (variance / PARTS as f64).sqrt();
        [(value - reach).max(0.0) / 1e6, (value + reach) / 1e6]
    };
    Some(StepNoise { median_ms: around(median(lengths_ns), median), mean_ms: around(mean(lengths_ns), mean) })
}

fn median(lengths_ns: &[u64]) -> f64 {
    let mut sorted = lengths_ns.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |length| *length as f64)
}

fn mean(lengths_ns: &[u64]) -> f64 {
    lengths_ns.iter().map(|length| *length as f64).sum::<f64>() / lengths_ns.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_steps_have_little_noise_and_drift_has_much() {
        let even: Vec<u64> = (0..200).map(|at| 10_000_000 + at % 7 * 10_000).collect();
        let found = noise(&even).unwrap();
        assert!(found.median_ms[1] - found.median_ms[0] < 0.1, "{found:?}");
        assert!(found.mean_ms[0] <= 10.03 && found.mean_ms[1] >= 10.03, "{found:?}");
        let drifting: Vec<u64> = (0..200).map(|at| 10_000_000 + at * 20_000).collect();
        let found = noise(&drifting).unwrap();
        assert!(found.median_ms[1] - found.median_ms[0] > 1.0, "{found:?}");
    }

    #[test]
    fn a_stall_moves_the_mean_but_not_beyond_its_noise() {
        let mut lengths: Vec<u64> = vec![10_000_000; 200];
        lengths[77] = 2_000_000_000;
        let found = noise(&lengths).unwrap();
        assert_eq!(found.median_ms, [10.0, 10.0]);
        assert!(found.mean_ms[0] < 10.0 && found.mean_ms[1] > 20.0, "{found:?}");
    }

    #[test]
    fn a_handful_of_steps_says_nothing() {
        assert_eq!(noise(&[10; 19]), None);
    }
}
