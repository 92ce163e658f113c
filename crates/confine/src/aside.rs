//! A second thread for each that looks at strangers with rights of its own: it does what may not return. It has the name and the
//! rights of the thread that it works for.

use crate::patience::{LOOKING_TURNS, ThreadId, count, wait};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

const NAME: &str = "looking at a process";

type Job = Box<dyn FnOnce() + Send>;

struct Aside {
    thread: Arc<ThreadId>,
    /// Nothing in a thread that is one itself.
    jobs: Option<Sender<Job>>,
}

thread_local! {
    static ASIDE: RefCell<Option<Aside>> = const { RefCell::new(None) };
}

/// Does something that another process can delay without end. Nothing where it did not return: the thread is left
/// behind, and the next one starts another.
pub fn within_limit<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // A thread that may start none has a waiter of its own, and one that is started for this does it right here.
    let Some((thread, jobs)) = ASIDE.with_borrow_mut(Aside::of_this_thread) else { return Some(look()) };
    let (outbox, inbox) = channel();
    // Whoever does not wait any more has left it behind.
    let sent = jobs.send(Box::new(move || drop(outbox.send(look()))));
    let found = sent.ok().and_then(|()| wait(&inbox, &thread, LOOKING_TURNS).ok());
    if found.is_none() {
        count(NAME);
        ASIDE.set(None);
    }
    found
}

impl Aside {
    fn of_this_thread(place: &mut Option<Aside>) -> Option<(Arc<ThreadId>, Sender<Job>)> {
        if place.is_none() {
            *place = Aside::start();
        }
        let aside = place.as_ref()?;
        Some((Arc::clone(&aside.thread), aside.jobs.clone()?))
    }

    fn start() -> Option<Aside> {
        let thread = Arc::new(ThreadId::default());
        let (jobs, inbox) = channel::<Job>();
        let own = Arc::clone(&thread);
        // Without a name it has that of the thread which starts it.
        Builder::new()
            .spawn(move || {
                own.set();
                ASIDE.set(Some(Aside { thread: own, jobs: None }));
                inbox.into_iter().for_each(|job| job());
            })
            .ok()?;
        Some(Aside { thread, jobs: Some(jobs) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_look_that_does_not_return_is_left_behind_and_the_next_one_is_answered() {
        let (keep, never) = channel::<()>();
        assert_eq!(within_limit(|| 7), Some(7));
        let before = crate::stuck().get(NAME).copied().unwrap_or_default();
        assert_eq!(within_limit(move || never.recv().is_ok()), None);
        assert!(crate::stuck()[NAME] > before);
        assert_eq!(within_limit(|| within_limit(|| within_limit(|| 7))), Some(Some(Some(7))));
        drop(keep);
    }

    #[test]
    fn one_that_computes_for_long_is_waited_for() {
        let busy = || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(1) {
                std::hint::spin_loop();
            }
            7
        };
        assert_eq!(within_limit(busy), Some(7));
    }
}
