//! Why a question has no answer.

use gpuwhy_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The question itself is wrong.
    #[error("{0}")]
    Usage(String),
    /// The trace has nothing to answer from.
    #[error("{0}")]
    NoData(String),
    /// What was asked failed.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl QueryError {
    /// The exit status promised to users: 1 it failed, 2 wrong usage, 3 nothing to answer from.
    pub fn exit_status(&self) -> u8 {
        match self {
            QueryError::Failed(_) | QueryError::Store(_) => 1,
            QueryError::Usage(_) => 2,
            QueryError::NoData(_) => 3,
        }
    }
}
