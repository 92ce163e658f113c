//! A rate from a counter that only rises.

const NS_PER_S: u128 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Rate {
    last: Option<(u64, u64)>,
}

impl Rate {
    /// By how much a second the counter rose since the last reading. Nothing the first time, nor when the counter
    /// went back: then it was reset or wrapped, and by how much nobody knows.
    pub(super) fn per_s(&mut self, now_ns: u64, counter: u64) -> Option<u64> {
        let (then_ns, before) = self.last.replace((now_ns, counter))?;
        let rose = counter.checked_sub(before)?;
        let took = now_ns.checked_sub(then_ns).filter(|took| *took > 0)?;
        u64::try_from(u128::from(rose) * NS_PER_S / u128::from(took)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_over_time() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_s(1_000_000_000, 100), None);
        assert_eq!(rate.per_s(1_500_000_000, 600), Some(1000));
        assert_eq!(rate.per_s(3_500_000_000, 600), Some(0));
    }

    #[test]
    fn a_counter_or_a_clock_that_went_back_gives_none() {
        let mut rate = Rate::default();
        rate.per_s(1_000_000_000, 100);
        assert_eq!(rate.per_s(2_000_000_000, 40), None);
        assert_eq!(rate.per_s(3_000_000_000, 90), Some(50));
        assert_eq!(rate.per_s(3_000_000_000, 95), None);
        assert_eq!(rate.per_s(2_000_000_000, 99), None);
        assert_eq!(rate.per_s(3_000_000_000, u64::MAX), Some(u64::MAX - 99));
    }
}
