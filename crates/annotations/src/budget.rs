//! How many lines a user may send. Pure: time comes in.

use std::collections::HashMap;

pub(crate) const LINES_A_SECOND: u64 = 2_000;
/// At once, after a pause.
const BURST: u64 = 10_000;
const MAX_USERS: usize = 1024;
const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// By user: lines left, in billionths, and when that was.
    left: HashMap<u32, (u64, u64)>,
}

impl Budget {
    /// Whether one more line may be taken.
    pub(crate) fn allows(&mut self, uid: u32, now_ns: u64) -> bool {
        if self.left.len() >= MAX_USERS && !self.left.contains_key(&uid) {
            // Those who have their whole burst have not sent for a while.
            self.left.clear();
        }
        let full = BURST * SECOND;
        let (left, at) = self.left.entry(uid).or_insert((full, now_ns));
        let gained = now_ns.saturating_sub(*at).saturating_mul(LINES_A_SECOND);
        *left = left.saturating_add(gained).min(full);
        *at = now_ns.max(*at);
        match left.checked_sub(SECOND) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_so_many_a_second() {
        let mut budget = Budget::default();
        let count =
            |budget: &mut Budget, uid, now, tries| (0..tries).filter(|_| budget.allows(uid, now)).count();
        assert_eq!(count(&mut budget, 1, 0, 100_000), BURST as usize);
        assert_eq!(count(&mut budget, 2, 0, 5), 5, "somebody else is not concerned");
        assert_eq!(count(&mut budget, 1, SECOND, 100_000), LINES_A_SECOND as usize);
        assert_eq!(count(&mut budget, 1, 1000 * SECOND, 100_000), BURST as usize);
    }
}
