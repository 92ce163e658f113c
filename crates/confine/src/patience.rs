//! Waiting for a thread that works for us, but not for ever: a page or a file of a stranger may be of a file system whose
//! server never answers, and whoever touches it sleeps in the kernel for good.

use crate::Purpose;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const TURN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 100 });
/// A thread that reads what is open already was not woken for two seconds: no disk takes that long for one read.
const PARSING_TURNS: u32 = 20;
/// One that talks to others waits for them, with a limit of its own below this one.
const TALKING_TURNS: u32 = 600;

static STUCK: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// How often threads were left behind that did not return, by name.
pub fn stuck() -> BTreeMap<&'static str, u64> {
    STUCK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn count(name: &'static str) {
    *STUCK.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Ended,
    /// The thread sleeps, and has not been woken for too long.
    Stuck,
}

/// For how many turns a thread may sleep without being woken; no limit for those that work on our own files.
pub(crate) fn turns(purpose: &Purpose) -> Option<u32> {
    match purpose {
        Purpose::Parse => Some(PARSING_TURNS),
        Purpose::Talk => Some(TALKING_TURNS),
        _ => None,
    }
}

/// The same for reading what the kernel says of a process, and opening its files.
pub(crate) const LOOKING_TURNS: Option<u32> = Some(PARSING_TURNS);

/// Waits for what a thread sends. Turns are counted, not time: where all of us stood still it was nobody's fault. Nor is a
/// thread stuck that waits for a CPU, computes, or is woken now and then.
pub(crate) fn wait<T>(inbox: &Receiver<T>, thread: &ThreadId, turns: Option<u32>) -> Result<T, Missing> {
    let mut still = 0;
    let mut seen = None;
    loop {
        match inbox.recv_timeout(TURN) {
            Ok(news) => return Ok(news),
            Err(RecvTimeoutError::Disconnected) => return Err(Missing::Ended),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(most) = turns else { continue };
        let now = thread.sleeping_since();
        still = if now.is_some() && now == seen { still + 1 } else { 0 };
        seen = now;
        if still >= most {
            return Err(Missing::Stuck);
        }
    }
}

/// A thread by its number in the kernel, once it has begun.
#[derive(Debug, Default)]
pub(crate) struct ThreadId(AtomicI32);

impl ThreadId {
    /// To be called by the thread itself.
    pub(crate) fn set(&self) {
        self.0.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// How often it went to sleep until now, where it sleeps.
    fn sleeping_since(&self) -> Option<u64> {
        let status =
            fs::read_to_string(format!("/proc/self/task/{}/status", self.0.load(Ordering::Relaxed))).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let sleeps = field("State:")?.starts_with(['S', 'D']);
        sleeps.then(|| field("voluntary_ctxt_switches:")?.parse().ok()).flatten()
    }
}
