//! Why a trace could not be made, one sentence each.

use gpuwhy_probes::LoadError;
use gpuwhy_store::StoreError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum AgentError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no process {0}")]
    NoProcess(u32),
    #[error("{path} is not a cgroup folder: {reason}")]
    Cgroup { path: String, reason: String },
    #[error("'{command}' cannot be started: {reason}")]
    Command { command: String, reason: String },
    #[error("no annotations can be taken at {path}: {reason}")]
    Annotate { path: String, reason: String },
    #[error("{0}")]
    Internal(String),
}
