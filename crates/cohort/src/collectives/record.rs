//! A collective call of one rank, as its agent saw it.

/// Ranks are joined by `comm` and `seq`. A call that still runs is told without its end, and again when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// `comm_id_hash`, as text.
    pub comm: &'a str,
    /// Which collective of the communicator; sends and receives have none.
    pub seq: Option<u64>,
    /// As `ALL_REDUCE`.
    pub op: &'a str,
    /// Within the communicator.
    pub rank: u32,
    /// Of the communicator.
    pub nranks: u32,
    pub count: u64,
    pub datatype: &'a str,
    pub reduce_op: &'a str,
    /// Of a send or receive, the rank in the communicator at the other end, where it is known.
    pub peer: Option<u32>,
    /// By the clock of the node.
    pub start_ns: u64,
    /// Until the host knew it to be done; nothing while it runs.
    pub duration_ns: Option<u64>,
    /// Of the process, where it is known: a rank of a job that was started again is another process.
    pub pid: Option<u64>,
}

impl Record<'_> {
    pub(crate) fn end_ns(&self) -> Option<u64> {
        self.duration_ns.map(|duration| self.start_ns.saturating_add(duration))
    }

    /// Nobody is done with it before everybody has begun it.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self.op, "ALL_REDUCE" | "ALL_GATHER" | "REDUCE_SCATTER" | "ALL_TO_ALL" | "BARRIER")
    }

    pub(crate) fn is_point_to_point(&self) -> bool {
        matches!(self.op, "SEND" | "RECV")
    }
}

/// A rank's own word that it is stuck, with where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck<'a> {
    pub comm: Option<&'a str>,
    pub seq: Option<u64>,
    pub op: &'a str,
    /// By the clock of the node.
    pub since_ns: u64,
    /// Innermost first, as `file:line function`.
    pub stack: &'a [String],
}
