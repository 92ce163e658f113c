//! Which process has a rank: of a job that was started again it is another one.

use std::collections::BTreeMap;

/// A process that has told nothing for so long, while another one tells of its rank, has ended.
const ENDED_NS: u64 = 2_500_000_000;

/// By rank, the process its records come from and when it last told one.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders(BTreeMap<u32, (u64, u64)>);

impl Holders {
    pub(super) fn forget(&mut self, rank: u32) {
        self.0.remove(&rank);
    }

    /// Whether this process took the place of another. Two that tell by turns share a number, and neither is new.
    pub(super) fn is_new(&mut self, rank: u32, pid: u64, seen_ns: u64) -> bool {
        let (known, reported_ns) = self.0.entry(rank).or_insert((pid, seen_ns));
        let is_other = *known != pid;
        if is_other && seen_ns.saturating_sub(*reported_ns) < ENDED_NS {
            return false;
        }
        (*known, *reported_ns) = (pid, seen_ns);
        is_other
    }
}
