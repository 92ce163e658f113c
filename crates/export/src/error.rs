//! Why an export did not come about.

use gpuwhy_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// Whoever was asked to go on said no.
    #[error("the export was interrupted")]
    Interrupted,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<serde_json::Error> for ExportError {
    fn from(error: serde_json::Error) -> Self {
        ExportError::Io(error.into())
    }
}

impl From<parquet::errors::ParquetError> for ExportError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            // What the disk said, not the library about it.
            parquet::errors::ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(error) => ExportError::Io(*error),
                Err(other) => ExportError::Io(std::io::Error::other(other)),
            },
            other => ExportError::Io(std::io::Error::other(other)),
        }
    }
}
