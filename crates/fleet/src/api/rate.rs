//! How often one may ask: so many at once, and then so many a second, for each token, or each address that shows none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// At once.
const BURST: f64 = 100.0;
/// Then a second.
const RATE: f64 = 25.0;
/// Askers that are kept apart; those who did not ask for a while are let go of.
const MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn filled(self, now: Instant) -> f64 {
        (self.left + now.saturating_duration_since(self.at).as_secs_f64() * RATE).min(BURST)
    }
}

impl Rates {
    /// The seconds to wait, where it is too much.
    pub(super) fn take(&self, who: &str, now: Instant) -> Result<(), u64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX && !buckets.contains_key(who) {
            buckets.retain(|_, bucket| bucket.filled(now) < BURST);
            if buckets.len() >= MAX {
                return Err(1);
            }
        }
        let bucket = buckets.entry(who.into()).or_insert(Bucket { left: BURST, at: now });
        let left = bucket.filled(now);
        *bucket = Bucket { left: if left >= 1.0 { left - 1.0 } else { left }, at: now };
        if left >= 1.0 { Ok(()) } else { Err(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_allowed_then_a_rate_and_others_do_not_pay_for_it() {
        let rates = Rates::default();
        let now = Instant::now();
        assert_eq!((0..200).filter(|_| rates.take("one", now).is_ok()).count(), BURST as usize);
        assert_eq!(rates.take("other", now), Ok(()));
        let later = now + Duration::from_secs(2);
        assert_eq!((0..200).filter(|_| rates.take("one", later).is_ok()).count(), 2 * RATE as usize);
    }

    #[test]
    fn there_are_so_many_askers_and_quiet_ones_make_room() {
        let rates = Rates::default();
        let now = Instant::now();
        for who in 0..MAX {
            rates.take(&who.to_string(), now).unwrap();
        }
        assert!(rates.take("one more", now).is_err());
        assert!(rates.take("one more", now + Duration::from_secs(60)).is_ok());
    }
}
