//! Random parameters that come again: the same seed draws the same ones.

/// The generator splitmix64, which needs no more than this to be as random as parameters have to be.
pub(super) struct Draw(u64);

impl Draw {
    /// Of a run of a scenario: what one scenario draws does not change what others draw.
    pub(super) fn new(seed: u64, scenario: u32, run: u32) -> Draw {
        let mut draw = Draw(seed ^ (u64::from(scenario) << 40) ^ (u64::from(run) << 20));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Both ends included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64 - 1) as usize]
    }
}

#[test]
fn the_same_seed_draws_the_same() {
    let draws = |seed, run| {
        let mut draw = Draw::new(seed, 7, run);
        [draw.between(1, 100), draw.between(1, 100), draw.between(1, 100), draw.one_of(&[5, 6])]
    };
    assert_eq!(draws(1, 0), draws(1, 0));
    assert_ne!(draws(1, 0), draws(1, 1));
    assert_ne!(draws(1, 0), draws(2, 0));
    assert!((0..100).all(|run| (3..=5).contains(&Draw::new(9, 1, run).between(3, 5))));
}
