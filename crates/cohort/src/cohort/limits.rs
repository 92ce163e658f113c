//! How much is remembered, and when something is said.

use crate::shares::Sharing;

/// What [`super::Cohorts`] holds at most. A rank takes about 6 KiB for its signals, 1 KiB for its time in collectives and up
/// to 11 KiB while collectives wait for the records of other ranks: 65,536 ranks fit in 1.2 GiB, 2,000 in 36 MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Jobs at a time. The one that was silent for longest gives way, if for a minute at least.
    pub jobs: usize,
    /// Ranks of all jobs together.
    pub ranks: usize,
    /// Where jobs are of several tenants, neither a token nor a cluster has more jobs or ranks than are left for the others.
    pub sharing: Sharing,
    /// Of the threshold: median - k x 1.4826 x MAD.
    pub k: f64,
    /// A rank not heard of for so long is not compared.
    pub stale_ns: u64,
    /// A straggler stays named for so long after the last evidence.
    pub hold_ns: u64,
    /// A job, or a rank of it, not heard of for so long is forgotten.
    pub forget_ns: u64,
    /// A collective without an end for so long is a hang.
    pub hang_ns: u64,
    /// The same while pushes are turned away, and for so long after it.
    pub hang_when_late_ns: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        const SECOND: u64 = 1_000_000_000;
        Limits {
            jobs: 4096,
            ranks: 65_536,
            sharing: Sharing::default(),
            k: 3.0,
            stale_ns: 10 * SECOND,
            hold_ns: 15 * SECOND,
            forget_ns: 600 * SECOND,
            hang_ns: 6 * SECOND,
            hang_when_late_ns: 30 * SECOND,
        }
    }
}
