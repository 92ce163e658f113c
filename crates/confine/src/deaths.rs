//! Confined threads that panicked: each is started anew, and somebody must hear of it.

use crate::{Purpose, confine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whoever panics at once does not keep a CPU busy with it.
const PAUSE: Duration = Duration::from_millis(10);

static DEATHS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// How often threads panicked until now, by name.
pub fn deaths() -> BTreeMap<&'static str, u64> {
    DEATHS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn count(name: &'static str) {
    *DEATHS.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
}

/// Confines the calling thread and runs `life`, again whenever that panics, until it returns. What is to outlive a panic
/// belongs to the caller: queues, files.
pub fn live<T>(name: &'static str, purpose: &Purpose, mut life: impl FnMut() -> T) -> T {
    confine(purpose);
    loop {
        match catch_unwind(AssertUnwindSafe(&mut life)) {
            Ok(end) => return end,
            Err(_) => count(name),
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_panics_goes_on_with_what_is_left_in_its_queue() {
        let (sender, inbox) = channel();
        let (outbox, done) = channel();
        let thread = std::thread::spawn(move || {
            live("test-live", &Purpose::Parse, || {
                for number in &inbox {
                    assert_ne!(number, 2);
                    outbox.send(number).unwrap();
                }
            });
        });
        (1..=4).for_each(|number| sender.send(number).unwrap());
        drop(sender);
        thread.join().unwrap();
        assert_eq!(done.iter().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(deaths()["test-live"], 1);
    }
}
