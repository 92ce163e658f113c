//! `coverage`: what the trace does not cover; part of every answer that is rows.

use crate::QueryError;
use crate::since::from_ns;
use gpuwhy_model::Coverage;
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CoverageRequest {
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Covered {
    pub coverage: Coverage,
}

pub fn coverage(reader: &Reader, request: &CoverageRequest) -> Result<Covered, QueryError> {
    Ok(Covered { coverage: reader.coverage(from_ns(reader, request.since.as_deref())?)? })
}
