//! Browsers show their token once, and go by a session afterwards.

use super::Site;
use axum::Form;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
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

pub(super) async fn enter(State(site): State<Arc<Site>>, Form(shown): Form<Shown>) -> Response<Body> {
    if !site.tokens.fits(shown.token.trim()) {
        tokio::time::sleep(WRONG).await;
        return Page::node().login(StatusCode::UNAUTHORIZED, "That is not the token.");
    }
    match site.sessions.open(()) {
        Some(session) => site.cookie.enter(&session),
        None => Page::node().login(StatusCode::INTERNAL_SERVER_ERROR, "The system gives no random numbers."),
    }
}

pub(super) async fn leave(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response<Body> {
    if let Some(session) = site.cookie.of(&headers) {
        site.sessions.close(&session);
    }
    site.cookie.leave()
}
