//! Who a sample or a record comes from.

/// A rank of a job, as the agent that pushes tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    pub cluster: &'a str,
    /// What makes ranks peers: a job's id, or the communicator all of them are in.
    pub job: &'a str,
    /// The machine: ranks of one share a clock.
    pub node: &'a str,
    /// In the job. Whoever has none is compared by its node.
    pub rank: Option<u32>,
    /// Of the job, where it is known.
    pub nranks: Option<u32>,
}
