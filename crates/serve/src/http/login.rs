//! Browsers show their token once, and go by a session afterwards: a random number in a cookie that no script sees.

use super::Site;
use super::assets::login_page;
use axum::Form;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_secs(12 * 3600);
/// More are not kept: the oldest goes.
const MOST: usize = 1_000;
/// Guessing takes time.
const WRONG: Duration = Duration::from_millis(500);

/// By the digest of their number: when they end.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Vec<u8>, Instant>>);

impl Sessions {
    fn open(&self) -> Option<String> {
        let mut number = [0u8; 32];
        SystemRandom::new().fill(&mut number).ok()?;
        let session = number.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, end| *end > Instant::now());
        if sessions.len() >= MOST
            && let Some(oldest) = sessions.iter().min_by_key(|(_, end)| **end).map(|(key, _)| key.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(key(&session), Instant::now() + LASTS);
        Some(session)
    }

    /// A digest is looked up, so how long that takes says nothing about the number.
    pub(super) fn knows(&self, session: &str) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&key(session)).is_some_and(|end| *end > Instant::now())
    }

    fn close(&self, session: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(session));
    }
}

fn key(session: &str) -> Vec<u8> {
    digest(&SHA256, session.as_bytes()).as_ref().to_vec()
}

/// `__Host-` binds a cookie to this very host and to TLS.
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-gpuwhy" } else { "gpuwhy" }
}

pub(super) fn session_of(headers: &HeaderMap, secure: bool) -> Option<String> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
    cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find(|(name, _)| *name == cookie_name(secure))
        .map(|(_, session)| session.to_string())
}

#[derive(Deserialize)]
pub(super) struct Shown {
    token: String,
}

pub(super) async fn enter(State(site): State<Arc<Site>>, Form(shown): Form<Shown>) -> Response<Body> {
    if !site.tokens.fits(shown.token.trim()) {
        tokio::time::sleep(WRONG).await;
        return login_page(StatusCode::UNAUTHORIZED, "That is not the token.");
    }
    match site.sessions.open() {
        Some(session) => home(&cookie(&session, site.secure, LASTS)),
        None => login_page(StatusCode::INTERNAL_SERVER_ERROR, "The system gives no random numbers."),
    }
}

pub(super) async fn leave(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response<Body> {
    if let Some(session) = session_of(&headers, site.secure) {
        site.sessions.close(&session);
    }
    home(&cookie("", site.secure, Duration::ZERO))
}

fn cookie(session: &str, secure: bool, lasts: Duration) -> String {
    let name = cookie_name(secure);
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", lasts.as_secs())
}

fn home(cookie: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
