//! `fleet.server.status`.

use super::super::Work;
use super::history::MAX_ROWS;
use gpuwhy_http::{AskError, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusRequest {
    /// So many of the last questions at most; 100 otherwise.
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StatusAnswer {
    /// Since the server began: pushes and rows taken, duplicates, what was left out, refused or failed.
    counted: Value,
    /// The last entries of the audit log, the newest first: when, from where, by which token (of its digest the beginning), what,
    /// and what became of it.
    asked: Vec<Value>,
    /// The same of requests that were refused, or showed no token; `count` of them where they are not listed one by one.
    refused: Vec<Value>,
}

/// The audit log and the sums are of all clusters, so they are for those who may see all.
pub(super) fn status(work: &Work<'_>, request: &StatusRequest) -> Result<StatusAnswer, AskError> {
    if work.grant.clusters.is_some() {
        let sentence = "this is of all clusters, so it needs a token with the scope `admin` for `*`";
        return Err(AskError::new(Kind::Refused, sentence));
    }
    let max = request.limit.unwrap_or(100).clamp(1, MAX_ROWS);
    let failed = |error| AskError::new(Kind::Failed, format!("the audit log cannot be read: {error}"));
    let asked = work.audit.newest(max).map_err(failed)?;
    let refused = work.audit.newest_refused(max).map_err(failed)?;
    Ok(StatusAnswer { counted: work.tally.json(), asked, refused })
}
