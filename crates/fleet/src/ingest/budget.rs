//! The memory that requests may take, all of them together: from their first byte until their rows are compared. Senders
//! share it: whoever lets requests stand takes nobody else's part.

use gpuwhy_cohort::shares::{Shares, Tenant};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Mutex<Shares>>);

/// There is no room for more now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Given back when dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    budget: Budget,
    sender: Tenant,
    bytes: usize,
}

impl Budget {
    /// `is_shared`: by several senders.
    pub(crate) fn new(max: usize, is_shared: bool) -> Budget {
        Budget(Arc::new(Mutex::new(Shares::new(max, is_shared))))
    }

    pub(crate) fn none(&self, sender: &Tenant) -> Taken {
        Taken { budget: self.clone(), sender: sender.clone(), bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.lock().used()
    }
}

impl Taken {
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), Full> {
        if !self.budget.lock().take(&self.sender, bytes) {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// So much is not needed any more.
    pub(crate) fn less(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.budget.lock().give_back(&self.sender, bytes);
        self.bytes -= bytes;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.lock().give_back(&self.sender, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_all_comes_back() {
        let (budget, sender) = (Budget::new(100, false), "a".into());
        let mut one = budget.none(&sender);
        assert_eq!(one.more(60), Ok(()));
        let mut other = budget.none(&sender);
        assert_eq!(other.more(41), Err(Full));
        assert_eq!(other.more(40), Ok(()));
        assert_eq!(budget.used(), 100);
        one.less(10);
        assert_eq!(other.more(10), Ok(()));
        drop(one);
        assert_eq!(other.more(50), Ok(()));
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn requests_that_stand_take_nobody_elses_part() {
        let budget = Budget::new(1 << 20, true);
        let standing: Vec<Taken> = (0..16)
            .map(|_| {
                let mut taken = budget.none(&"a".into());
                while taken.more(16 << 10).is_ok() {}
                taken
            })
            .collect();
        assert!(budget.none(&"a".into()).more(16 << 10).is_err());
        assert_eq!(budget.none(&"b".into()).more(200 << 10), Ok(()));
        drop(standing);
        assert_eq!(budget.used(), 0);
    }
}
