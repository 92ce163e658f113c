//! Why a node is not in the answer: a sentence each, which says what to do.

use gpuwhy_model::units::size;
use gpuwhy_store::StoreError;
use gpuwhy_store::transfer::TransferError;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("it cannot be reached ({0}); is `gpuwhy dashboard` running there?")]
    Unreachable(String),
    #[error("its certificate is not trusted: {0}")]
    Certificate(String),
    #[error(
        "it does not speak TLS ({0}); a dashboard without TLS is asked as http://, on this host or through ssh"
    )]
    Tls(String),
    #[error("it wants a token; give it with --token-file FILE or GPUWHY_TOKEN")]
    NoToken,
    #[error("it refuses the token it was shown; give the one it was started with")]
    WrongToken,
    #[error("it did not answer within {0:?}")]
    Slow(Duration),
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("what answers there is no `gpuwhy dashboard`: {0}")]
    Stranger(String),
    #[error("its gpuwhy does not hand out its trace; update gpuwhy there")]
    Old,
    #[error("the connection ended in the middle of its answer ({0}); ask again")]
    Cut(String),
    #[error(
        "its trace is larger than {limit}{of}; ask about less (--since 5m), raise --max-transfer, or ask on the node itself",
        limit = size(*limit),
        of = bytes.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default()
    )]
    TooLarge { bytes: Option<u64>, limit: u64 },
    #[error("{0}")]
    Transfer(TransferError),
    #[error("it was interrupted")]
    Interrupted,
    /// It is not the node's fault, and others would fail, too.
    #[error("{0}")]
    Here(String),
}

impl From<TransferError> for Trouble {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::TooLarge { limit } => Trouble::TooLarge { bytes: None, limit },
            TransferError::Cut => Trouble::Cut("its trace is not whole".into()),
            TransferError::Store(error @ (StoreError::Full { .. } | StoreError::Disk { .. })) => {
                Trouble::Here(error.to_string())
            }
            other => Trouble::Transfer(other),
        }
    }
}
