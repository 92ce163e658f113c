//! Where in their programs threads wait between GPU calls. Waits come by the thousand, so they are met by looking now and
//! then; a line that is met often is where the time goes.

use crate::stuck::stack_of;
use gpuwhy_model::{Batch, Frame, Waiting};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Shorter waits are not worth reading a stack for.
const LEAST_NS: u64 = 2_000_000;
/// Stacks read at one look.
const MOST_READ: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct WaitingThreads {
    looked: Option<Instant>,
}

impl WaitingThreads {
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if due {
            self.looked = Some(Instant::now());
        }
        due
    }
}

/// Adds the waits that last, with their Python frames. `look` lists who waits just now: a thread that is still in the
/// same wait after its frames were read has stood at that line all the time.
pub(crate) fn meet(
    batch: &mut Batch,
    read: impl Fn(&Waiting) -> Option<Vec<Frame>>,
    look: impl Fn() -> Vec<Waiting>,
) {
    let met: Vec<(Waiting, Vec<Frame>)> = look()
        .into_iter()
        .filter(|wait| wait.time_ns.saturating_sub(wait.since_ns) >= LEAST_NS)
        .filter_map(|wait| read(&wait).map(|frames| (wait, frames)))
        .take(MOST_READ)
        .collect();
    if met.is_empty() {
        return;
    }
    let still: HashSet<(u32, u32, u64)> =
        look().iter().map(|wait| (wait.pid, wait.tid, wait.since_ns)).collect();
    for (mut wait, frames) in met {
        let Some(stack) = stack_of(wait.pid, frames) else { continue };
        if still.contains(&(wait.pid, wait.tid, wait.since_ns)) {
            wait.stack_id = Some(stack.stack_id);
            batch.stacks.push(stack);
            batch.waiting.push(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{FrameKind, Reason};
    use std::cell::Cell;

    fn wait(tid: u32, since_ns: u64) -> Waiting {
        Waiting {
            time_ns: 10_000_000,
            pid: 7,
            tid,
            since_ns,
            reason: Reason::Sleep,
            stack_id: None,
            thread_pointer: 0,
        }
    }

    #[test]
    fn only_a_thread_that_still_waits_is_believed() {
        let frame = Frame { kind: FrameKind::Python, function: Some("load".into()), ..Frame::default() };
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            // The second one waits for something else by then, the third waits for a moment only.
            let second = if looks.get() == 1 { 5 } else { 6 };
            vec![wait(1, 5), wait(2, second), wait(3, 9_500_000)]
        };
        let mut batch = Batch::default();
        meet(&mut batch, |_| Some(vec![frame.clone()]), look);
        assert_eq!(batch.waiting.iter().map(|wait| wait.tid).collect::<Vec<_>>(), [1]);
        assert_eq!(batch.waiting[0].stack_id, Some(batch.stacks[0].stack_id));
    }
}
