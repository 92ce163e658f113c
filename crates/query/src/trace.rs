//! `trace`: the file itself.

use crate::QueryError;
use gpuwhy_model::Coverage;
use gpuwhy_store::{Reader, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TraceRequest {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trace {
    pub file: String,
    /// Unix time in nanoseconds; null where nothing was recorded.
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Events on file.
    pub events: u64,
    /// Hosts, each once.
    pub nodes: Vec<String>,
    pub sessions: Vec<Session>,
    /// Older data was deleted to keep the file small.
    pub deleted_before_ns: Option<u64>,
    /// A trace is still being written to it: its newest session has no end.
    pub live: bool,
    pub coverage: Coverage,
}

pub fn trace(reader: &Reader, _request: &TraceRequest) -> Result<Trace, QueryError> {
    let span = reader.span()?;
    let sessions = reader.sessions()?;
    Ok(Trace {
        file: reader.path().display().to_string(),
        start_ns: span.map(|span| span.start_ns),
        end_ns: span.map(|span| span.end_ns),
        events: reader.event_count()?,
        nodes: nodes(&sessions),
        live: sessions.last().is_some_and(|session| session.end_ns.is_none()),
        sessions,
        deleted_before_ns: reader.deleted_before_ns()?,
        coverage: reader.coverage(None)?,
    })
}

/// The hosts of a trace.
pub(crate) fn nodes(sessions: &[Session]) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for session in sessions {
        if !session.info.host.is_empty() && !nodes.contains(&session.info.host) {
            nodes.push(session.info.host.clone());
        }
    }
    nodes
}
