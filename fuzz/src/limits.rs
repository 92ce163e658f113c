//! One input, and what it may cost.

use crate::{Target, memory};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// On the CPU, so that a busy machine does not count; builds without optimisation take a few times as long.
pub const SLOWEST: Duration = Duration::from_secs(2);
/// Held at once, for inputs of 64 KiB at most.
pub const MAX_MEMORY: usize = 64 << 20;
/// By the clock on the wall: it waits for something that does not come.
const STUCK: Duration = Duration::from_secs(60);

/// Runs a target and panics where the input cost too much.
pub fn run(target: &Target, input: &[u8]) {
    memory::begin();
    let began = cpu_time();
    (target.run)(input);
    let (took, held) = (cpu_time().saturating_sub(began), memory::peak());
    assert!(
        took <= SLOWEST,
        "{} bytes took {took:?} of CPU time; at most {SLOWEST:?} is allowed",
        input.len()
    );
    assert!(
        held <= MAX_MEMORY,
        "{} bytes made it hold {held} bytes; at most {MAX_MEMORY} are allowed",
        input.len()
    );
}

thread_local! {
    /// Nothing where panics are printed, as usual.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of this thread are kept with their places instead of being printed: blind runs go on behind them, maybe thousands of times.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if PANIC.with_borrow(Option::is_some) {
                PANIC.set(Some(panic.to_string().replace('\n', " ")));
            } else {
                usual(panic);
            }
        }));
    });
    PANIC.set(Some(String::new()));
}

/// The same, with the message of a panic as the result. `stuck` is called, from another thread, for an input that does not end.
pub fn checked(target: &Target, input: &[u8], stuck: impl FnOnce() + Send) -> Result<(), String> {
    keep_panics();
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
                stuck();
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| run(target, input)));
        drop(done);
        let panic = PANIC.take().unwrap_or_default();
        outcome.map_err(|_| panic)
    })
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(run: fn(&[u8])) -> Target {
        Target { name: "made", about: "", run, words: &[], runs: 0, most_bytes: 10 }
    }

    #[test]
    fn panics_memory_and_time_are_failures() {
        let outcome = |run| checked(&target(run), b"input", || {});
        assert_eq!(outcome(|_| {}), Ok(()));
        assert!(outcome(|_| panic!("oh")).unwrap_err().contains("limits.rs"));
        let large = outcome(|_| drop(std::hint::black_box(vec![0u8; MAX_MEMORY + 1])));
        assert!(large.unwrap_err().contains("hold"));
        let slow = outcome(|_| {
            let began = cpu_time();
            while cpu_time() - began < SLOWEST + Duration::from_millis(10) {}
        });
        assert!(slow.unwrap_err().contains("CPU time"));
    }
}
