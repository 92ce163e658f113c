//! The event store, as everything else sees it. One engine is here, DuckDB; a distributed one takes its place behind the same
//! trait.

pub mod duck;
mod rows;
mod stop;

pub use rows::Rows;
pub use stop::Stop;

use crate::journal::Position;
use crate::point::{Batch, BatchId, Collective};
use std::path::PathBuf;
use std::time::Duration;

/// Rows to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// None: all of them.
    pub clusters: Option<Vec<String>>,
    pub node: Option<String>,
    pub metric: Option<String>,
    pub job: Option<String>,
    pub rank: Option<i32>,
    pub comm_id_hash: Option<String>,
    pub from_ns: Option<i64>,
    pub to_ns: Option<i64>,
}

/// How far a question may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    pub rows: usize,
    pub bytes: usize,
    pub time: Duration,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach { rows: 1_000, bytes: 8 << 20, time: Duration::from_secs(30) }
    }
}

/// A metric of one rank over a time.
#[derive(Debug, Clone, PartialEq)]
pub struct RankValue {
    pub cluster: String,
    pub node: String,
    pub job: Option<String>,
    pub rank: Option<i32>,
    pub nranks: Option<i32>,
    pub median: f64,
    pub mean: f64,
    pub points: i64,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// What of a rank's time went to a cause.
#[derive(Debug, Clone, PartialEq)]
pub struct BlameShare {
    pub cluster: String,
    pub job: Option<String>,
    pub rank: Option<i32>,
    pub class: String,
    pub share: f64,
}

/// What was deleted to make room, or for its age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub rows: u64,
}

/// What is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { age: Duration::from_secs(30 * 86_400), bytes: 100 << 30 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{path} is being written to by another gpuwhy-fleet; name another folder with --data, or end that one"
    )]
    Locked { path: PathBuf },
    #[error(
        "{path} was written by a newer gpuwhy-fleet (schema {found}, this one knows {known}); use that one, or another folder"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("the store in {path} cannot be opened: {why}")]
    Open { path: PathBuf, why: String },
    #[error("the store cannot be written to: {0}")]
    Write(String),
    /// Not for the disk's sake: it is of no use to try again.
    #[error("the store does not take these rows: {0}")]
    Refused(String),
    #[error("{0}")]
    Sql(String),
    #[error("it took longer than {0:?} and was given up; ask about a shorter time")]
    Slow(Duration),
    #[error(
        "the statement ended the process that ran it: it needed more than {0} MiB, or gives a type that cannot be read; ask for less, or cast it to VARCHAR"
    )]
    Died(u64),
    #[error("too many statements are being run; ask again later")]
    Busy,
    #[error("{0}")]
    Failed(String),
    #[error("it was taken back")]
    Stopped,
}

/// Where rows go.
pub trait Sink: Send + Sync {
    /// All of the group and how far the journal is in the store by it, or nothing of either; durable when it returns.
    fn write(&self, group: &[&Batch], to: Position) -> Result<(), StoreError>;
    /// Up to where the journal is in the store.
    fn stored(&self) -> Result<Position, StoreError>;
    /// Batches of the latest writes, oldest first, as many of them as can come again.
    fn recent(&self) -> Result<Vec<BatchId>, StoreError>;
    /// Forgets ids of batches written before then; those cannot be told when they come again.
    fn forget_batches(&self, before_ns: i64) -> Result<(), StoreError>;
    /// Deletes what is too old, and the oldest of what is too much.
    fn forget(&self, now_ns: i64, keep: Retention) -> Result<Forgotten, StoreError>;
}

/// Where all rows are, for those who ask.
pub trait Store: Sink {
    /// Newest first.
    fn events(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError>;
    fn findings(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError>;
    fn nodes(&self, filter: &Filter, reach: Reach, stop: &Stop) -> Result<Rows, StoreError>;
    /// Oldest first; of more than are asked for, the newest.
    fn collectives(&self, filter: &Filter, most: usize, stop: &Stop) -> Result<Vec<Collective>, StoreError>;
    /// A metric by rank.
    fn by_rank(&self, filter: &Filter, stop: &Stop) -> Result<Vec<RankValue>, StoreError>;
    /// `gpuwhy.rank.blame_ratio` by rank and class.
    fn blame(&self, filter: &Filter, stop: &Stop) -> Result<Vec<BlameShare>, StoreError>;
    /// When the newest row is of, or nothing.
    fn newest_ns(&self, filter: &Filter, stop: &Stop) -> Result<Option<i64>, StoreError>;
    /// Any question, of all clusters. The engine sees to it that it only reads.
    fn sql(&self, sql: &str, reach: Reach, stop: &Stop) -> Result<Rows, StoreError>;
    /// A question of ours about `events`, `collectives`, `findings` and `nodes`, of these clusters alone.
    fn analysis(
        &self,
        sql: &str,
        clusters: Option<&[String]>,
        reach: Reach,
        stop: &Stop,
    ) -> Result<Rows, StoreError>;
}
