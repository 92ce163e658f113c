//! Sessions of assistants over HTTP: so many at a time. Beginning one is a single request, and nobody has to end it.

use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A session that nobody uses ends.
const IDLE: Duration = Duration::from_secs(300);
/// Answers that were sent are kept for a client that lost its connection.
const RESUMABLE: Duration = Duration::from_secs(5);
/// For a session to end whose place is needed.
const CLOSING: Duration = Duration::from_secs(1);

/// Of all sessions the newest: when there are too many, the one that was used longest ago ends.
#[derive(Debug)]
pub struct McpSessions {
    inner: LocalSessionManager,
    limit: usize,
    used: Mutex<HashMap<SessionId, Instant>>,
}

type Failed = <LocalSessionManager as SessionManager>::Error;

impl McpSessions {
    pub fn new(limit: usize) -> McpSessions {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(IDLE);
        inner.session_config.completed_cache_ttl = RESUMABLE;
        McpSessions { inner, limit, used: Mutex::default() }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<SessionId, Instant>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, id: &SessionId) {
        if let Some(at) = self.used().get_mut(id) {
            *at = Instant::now();
        }
    }

    /// The session whose place is needed.
    fn displaced(&self) -> Option<SessionId> {
        let mut used = self.used();
        let oldest = used.iter().min_by_key(|(_, at)| **at).filter(|_| used.len() >= self.limit);
        let oldest = oldest.map(|(id, _)| id.clone())?;
        used.remove(&oldest);
        Some(oldest)
    }
}

impl SessionManager for McpSessions {
    type Error = Failed;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Failed> {
        while let Some(oldest) = self.displaced() {
            // It is out of the table at once; how it ends is its own business.
            let _ = tokio::time::timeout(CLOSING, self.inner.close_session(&oldest)).await;
        }
        let (id, transport) = self.inner.create_session().await?;
        self.used().insert(id.clone(), Instant::now());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Failed> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Failed> {
        self.touch(id);
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Failed> {
        self.used().remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failed> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Failed> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failed> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failed> {
        self.inner.resume(id, last_event_id).await
    }
}
