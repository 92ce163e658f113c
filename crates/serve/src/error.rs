//! Why a question has no answer, and why a server cannot start: a sentence each.

use gpuwhy_http::{AskError, HttpError, Kind};
use gpuwhy_query::QueryError;
use gpuwhy_store::StoreError;

/// Why the query layer has no answer.
pub(crate) fn of_query(error: &QueryError) -> AskError {
    let kind = match error {
        QueryError::Usage(_) => Kind::Usage,
        QueryError::NoData(_) => Kind::Nothing,
        QueryError::Failed(_) => Kind::Failed,
        QueryError::Store(store) => kind_of(store),
    };
    AskError::new(kind, error.to_string())
}

pub(crate) fn of_store(error: StoreError) -> AskError {
    of_query(&error.into())
}

fn kind_of(error: &StoreError) -> Kind {
    match error {
        StoreError::NotFound { .. } | StoreError::Empty { .. } | StoreError::Blank { .. } => Kind::Nothing,
        StoreError::Sql(_)
        | StoreError::ReadOnly
        | StoreError::Function(_)
        | StoreError::TooLarge(_)
        | StoreError::TooMuchMemory(_) => Kind::Usage,
        StoreError::TooSlow(_) => Kind::Slow,
        StoreError::Stopped => Kind::Stopped,
        _ => Kind::Failed,
    }
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{address} can be reached from other hosts, so it needs TLS and a token: give --tls-cert, --tls-key and --token-file \
         (or GPUWHY_TOKEN), or listen on 127.0.0.1"
    )]
    Open { address: String },
    #[error(transparent)]
    ListenOptions(#[from] HttpError),
    #[error("the server failed: {0}")]
    Failed(String),
}
