//! The dashboard: its files, and how a browser gets in. It asks the same questions as everybody.

use super::http::no_such_path;
use super::{Caller, Site};
use crate::tokens::Scope;
use axum::Form;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use gpuwhy_http::page::Page;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Guessing takes time.
const WRONG: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
pub(super) struct Shown {
    token: String,
}

pub(super) async fn index(headers: HeaderMap) -> Response<Body> {
    match Page::fleet().index(&headers) {
        Some(page) => page,
        None => no_such_path().await.into_response(),
    }
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    match Page::fleet().file(&name, &headers) {
        Some(file) => file,
        None => no_such_path().await.into_response(),
    }
}

pub(super) async fn enter(State(site): State<Arc<Site>>, Form(shown): Form<Shown>) -> Response<Body> {
    let again = |status, message| Page::fleet().login(status, message);
    let Some(grant) = site.tokens.grant(shown.token.trim()) else {
        tokio::time::sleep(WRONG).await;
        return again(StatusCode::UNAUTHORIZED, "That is no token of this server.");
    };
    if !grant.has(Scope::Read) {
        return again(StatusCode::FORBIDDEN, "That token may not read: it lacks the scope `read`.");
    }
    match site.sessions.open(grant.clone()) {
        Some(session) => {
            let mut entered = site.cookie.enter(&session);
            // For the audit log.
            entered.extensions_mut().insert(Caller(Some(grant)));
            entered
        }
        None => again(StatusCode::INTERNAL_SERVER_ERROR, "The system gives no random numbers."),
    }
}

pub(super) async fn leave(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response<Body> {
    if let Some(session) = site.cookie.of(&headers) {
        site.sessions.close(&session);
    }
    site.cookie.leave()
}
