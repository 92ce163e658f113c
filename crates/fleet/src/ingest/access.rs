//! The doors for pushes: who may push is decided before anything is read.

use super::{Ingest, Signal, grpc, http};
use crate::api::audit::{Audit, Entry};
use crate::tokens::{Grant, Scope, Tokens, bearer};
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::post;
use gpuwhy_http::Peer;
use std::sync::Arc;

/// What all pushes share.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) tokens: Tokens,
    pub(crate) audit: Arc<Audit>,
}

/// Why somebody may not push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error("a token is needed: send it as `Authorization: Bearer TOKEN`")]
    Unknown,
    #[error("this token may not push; it needs the scope `push`")]
    Scope,
}

impl Gate {
    /// What is refused is audited; what is taken is in the store.
    pub(super) fn enter(&self, request: &Request) -> Result<Arc<Grant>, Denied> {
        let found = grant(&self.tokens, request.headers());
        let denied = match &found {
            None => Denied::Unknown,
            Some(grant) if !grant.has(Scope::Push) => Denied::Scope,
            Some(grant) => return Ok(grant.clone()),
        };
        let status = if denied == Denied::Unknown { 401 } else { 403 };
        self.audit.refuse(&Entry {
            peer: request.extensions().get::<Peer>().copied(),
            token: found.as_deref().map(|grant| grant.short.as_str()),
            method: "POST",
            path: request.uri().path(),
            tool: None,
            status,
            took_ms: 0,
        });
        Err(denied)
    }
}

fn grant(tokens: &Tokens, headers: &HeaderMap) -> Option<Arc<Grant>> {
    tokens.grant(bearer(headers)?)
}

/// OTLP over HTTP.
pub(crate) fn http_router(gate: &Arc<Gate>) -> Router {
    Signal::ALL.into_iter().fold(Router::new(), |router, signal| {
        let gate = gate.clone();
        router.route(
            signal.path(),
            post(move |request: Request| async move { http::push(&gate, signal, request).await }),
        )
    })
}

/// OTLP over gRPC.
pub(crate) fn grpc_router(gate: &Arc<Gate>) -> Router {
    let router = Signal::ALL.into_iter().fold(Router::new(), |router, signal| {
        let gate = gate.clone();
        router.route(
            signal.method(),
            post(move |request: Request| async move { grpc::push(&gate, signal, request).await }),
        )
    });
    router.fallback(grpc::unknown)
}
