//! Browsers show their token once, and go by a session afterwards: a random number in a cookie that no script sees.

use axum::body::Body;
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_secs(12 * 3600);
/// More are not kept: the oldest goes.
const MAX: usize = 1_000;

/// By the digest of their number: whose they are and when they end.
#[derive(Debug)]
pub struct Sessions<T>(Mutex<HashMap<Vec<u8>, (T, Instant)>>);

impl<T> Default for Sessions<T> {
    fn default() -> Sessions<T> {
        Sessions(Mutex::default())
    }
}

impl<T: Clone> Sessions<T> {
    /// Its number; nothing where the system gives no random ones.
    pub fn open(&self, owner: T) -> Option<String> {
        let session = crate::random()?;
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, (_, end)| *end > Instant::now());
        if sessions.len() >= MAX
            && let Some(oldest) = sessions.iter().min_by_key(|(_, (_, end))| *end).map(|(key, _)| key.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(key(&session), (owner, Instant::now() + LASTS));
        Some(session)
    }

    /// A digest is looked up, so how long that takes says nothing about the number.
    pub fn owner(&self, session: &str) -> Option<T> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&key(session)).filter(|(_, end)| *end > Instant::now()).map(|(owner, _)| owner.clone())
    }

    pub fn close(&self, session: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(session));
    }
}

fn key(session: &str) -> Vec<u8> {
    digest(&SHA256, session.as_bytes()).as_ref().to_vec()
}

/// The cookie a session is in. Cookies know no ports, so servers that may run on one host have names of their own.
#[derive(Debug, Clone, Copy)]
pub struct Cookie {
    pub name: &'static str,
    /// Only over TLS.
    pub secure: bool,
}

impl Cookie {
    /// `__Host-` binds a cookie to this very host and to TLS.
    fn full_name(self) -> String {
        format!("{}{}", if self.secure { "__Host-" } else { "" }, self.name)
    }

    /// The session that a request shows.
    pub fn of(self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
        let own = self.full_name();
        cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find(|(name, _)| *name == own)
            .map(|(_, session)| session.to_string())
    }

    /// To the dashboard, with a session.
    pub fn enter(self, session: &str) -> Response<Body> {
        self.home(session, LASTS)
    }

    /// To the dashboard, without.
    pub fn leave(self) -> Response<Body> {
        self.home("", Duration::ZERO)
    }

    fn home(self, session: &str, lasts: Duration) -> Response<Body> {
        let (name, secure) = (self.full_name(), if self.secure { "; Secure" } else { "" });
        let seconds = lasts.as_secs();
        let cookie =
            format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_whose_it_was_opened_for_until_it_is_closed() {
        let sessions = Sessions::default();
        let (one, other) = (sessions.open("one").unwrap(), sessions.open("other").unwrap());
        assert_eq!((sessions.owner(&one), sessions.owner(&other)), (Some("one"), Some("other")));
        sessions.close(&one);
        assert_eq!((sessions.owner(&one), sessions.owner("")), (None, None));
    }

    #[test]
    fn a_session_comes_back_in_its_own_cookie_only() {
        let cookie = Cookie { name: "gpuwhy", secure: true };
        let set = cookie.enter("0123").headers()[SET_COOKIE].to_str().unwrap().to_string();
        assert!(set.starts_with("__Host-gpuwhy=0123; ") && set.ends_with("; Secure"), "{set}");
        let mut headers = HeaderMap::new();
        let shown = "gpuwhy=9; __Host-gpuwhy-fleet=8; __Host-gpuwhy=0123";
        headers.insert(COOKIE, HeaderValue::from_static(shown));
        assert_eq!(cookie.of(&headers).as_deref(), Some("0123"));
        let other = Cookie { name: "other", secure: true };
        assert_eq!(other.of(&headers), None);
    }
}
