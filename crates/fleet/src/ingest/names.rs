//! Names that were seen, each kept once: so many of a kind, and those that nobody used for a day are forgotten.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_secs(86_400);

#[derive(Debug)]
pub(super) struct Names {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    began: Instant,
    current: HashSet<Arc<str>>,
    previous: HashSet<Arc<str>>,
}

impl Names {
    pub(super) fn new(most: usize) -> Names {
        let inner = Inner { began: Instant::now(), current: HashSet::new(), previous: HashSet::new() };
        Names { most, inner: Mutex::new(inner) }
    }

    /// None where there are too many already.
    pub(super) fn of(&self, name: &str) -> Option<Arc<str>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.current.get(name) {
            return Some(known.clone());
        }
        if inner.began.elapsed() > LASTS {
            inner.previous = std::mem::take(&mut inner.current);
            inner.began = Instant::now();
        }
        let again = inner.previous.take(name);
        if again.is_none() && inner.current.len() + inner.previous.len() >= self.most {
            return None;
        }
        let name = again.unwrap_or_else(|| name.into());
        inner.current.insert(name.clone());
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_always_there_and_new_ones_only_so_many() {
        let names = Names::new(2);
        let one = names.of("one").unwrap();
        assert!(Arc::ptr_eq(&one, &names.of("one").unwrap()));
        assert!(names.of("two").is_some());
        assert_eq!(names.of("three"), None);
        assert!(names.of("one").is_some());
    }
}
