//! Chance that can be repeated.

/// SplitMix64: small, and good enough to simulate with.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.share() * end as f64) as usize
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len())).copied()
    }

    pub fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.share(), self.share());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// With a mean of 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }

    /// From 1 up, with a tail so heavy that it has no variance.
    pub fn pareto(&mut self) -> f64 {
        const SHAPE: f64 = 1.5;
        (1.0 - self.share()).powf(-1.0 / SHAPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_and_moments_are_right() {
        let (mut one, mut other) = (Random::new(3), Random::new(3));
        let draws: Vec<f64> = (0..20_000).map(|_| one.normal()).collect();
        assert!(draws.iter().all(|draw| *draw == other.normal()));
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        assert!((0..1000).all(|_| one.pareto() >= 1.0 && one.below(3) < 3));
    }
}
