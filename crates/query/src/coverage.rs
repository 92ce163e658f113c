//! `coverage`: what the trace does not cover; part of every answer that is rows.

use crate::QueryError;
use crate::since::from_ns;
use gpuwhy_model::Coverage;
use gpuwhy_store::Reader;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoverageRequest {
    /// As `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
}

pub fn coverage(reader: &Reader, request: &CoverageRequest) -> Result<Coverage, QueryError> {
    Ok(reader.coverage(from_ns(reader, request.since.as_deref())?)?)
}
