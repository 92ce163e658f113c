//! The memory that requests may take, all of them together: from their first byte until their rows are stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    most: usize,
}

/// There is no room for more now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Given back when dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Budget {
        Budget(Arc::new(Inner { used: AtomicUsize::new(0), most }))
    }

    pub(crate) fn none(&self) -> Taken {
        Taken { budget: self.clone(), bytes: 0 }
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Taken {
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), Full> {
        let inner = &self.budget.0;
        let before = inner.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > inner.most {
            inner.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_all_comes_back() {
        let budget = Budget::new(100);
        let mut one = budget.none();
        assert_eq!(one.more(60), Ok(()));
        let mut other = budget.none();
        assert_eq!(other.more(41), Err(Full));
        assert_eq!(other.more(40), Ok(()));
        assert_eq!(budget.used(), 100);
        drop(one);
        assert_eq!(other.more(60), Ok(()));
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
