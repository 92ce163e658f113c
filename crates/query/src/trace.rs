//! `trace`: the file itself.

use crate::QueryError;
use gpuwhy_store::{Reader, Session};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceRequest {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    pub file: String,
    /// None where nothing was recorded.
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Events on file.
    pub events: u64,
    /// Hosts, each once.
    pub nodes: Vec<String>,
    pub sessions: Vec<Session>,
    /// Older data was deleted to keep the file small.
    pub deleted_before_ns: Option<u64>,
}

pub fn trace(reader: &Reader, _request: &TraceRequest) -> Result<Trace, QueryError> {
    let span = reader.span()?;
    let sessions = reader.sessions()?;
    let mut nodes: Vec<String> = Vec::new();
    for session in &sessions {
        if !session.info.host.is_empty() && !nodes.contains(&session.info.host) {
            nodes.push(session.info.host.clone());
        }
    }
    Ok(Trace {
        file: reader.path().display().to_string(),
        start_ns: span.map(|span| span.start_ns),
        end_ns: span.map(|span| span.end_ns),
        events: reader.event_count()?,
        nodes,
        sessions,
        deleted_before_ns: reader.deleted_before_ns()?,
    })
}
