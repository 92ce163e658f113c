//! `sql`: one statement of the user.

use crate::{QueryError, Rows};
use gpuwhy_store::{Limits, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlRequest {
    /// One SELECT statement in SQLite's SQL, without place holders.
    #[serde(alias = "sql", alias = "query")]
    pub statement: String,
    /// At most so many rows.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Stop after so many seconds; 30 where nothing is said.
    #[serde(default)]
    pub seconds: Option<u64>,
}

pub fn sql(reader: &Reader, request: &SqlRequest) -> Result<Rows, QueryError> {
    let mut limits = Limits::default();
    limits.rows = request.limit.unwrap_or(limits.rows);
    limits.time = request.seconds.map_or(limits.time, Duration::from_secs);
    let answer = reader.sql(&request.statement, &limits)?;
    Ok(Rows::new(answer, reader.coverage(None)?))
}
