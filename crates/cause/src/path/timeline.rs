//! The waits of each thread in order, none over another.

use crate::activity::{Activity, ThreadWait};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Timelines {
    threads: BTreeMap<u32, Vec<ThreadWait>>,
}

impl Timelines {
    pub(crate) fn new(activity: &Activity) -> Timelines {
        let mut threads: BTreeMap<u32, Vec<ThreadWait>> = BTreeMap::new();
        // A thread that was sampled is followed, even if it never waited for long.
        for sample in &activity.samples {
            threads.entry(sample.tid).or_default();
        }
        for wait in activity.waits.iter().filter(|wait| wait.end_ns > wait.start_ns) {
            threads.entry(wait.tid).or_default().push(*wait);
        }
        for waits in threads.values_mut() {
            waits.sort_by_key(|wait| (wait.start_ns, std::cmp::Reverse(wait.end_ns)));
            // A page fault that waits for its disk is recorded as both: the outer one stands.
            let mut reached = 0;
            waits.retain_mut(|wait| {
                wait.start_ns = wait.start_ns.max(reached);
                let stays = wait.end_ns > wait.start_ns;
                reached = reached.max(wait.end_ns);
                stays
            });
        }
        Timelines { threads }
    }

    pub(crate) fn is_followed(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    pub(crate) fn of(&self, tid: u32) -> &[ThreadWait] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The last wait of a thread that began before a time.
    pub(crate) fn last_before(&self, tid: u32, time_ns: u64) -> Option<&ThreadWait> {
        let waits = self.of(tid);
        waits.partition_point(|wait| wait.start_ns < time_ns).checked_sub(1).and_then(|at| waits.get(at))
    }
}
