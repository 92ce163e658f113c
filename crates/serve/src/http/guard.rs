//! The guard of every request: which host was meant, which page asks, who asks. All before anything else is done.

use super::Site;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use gpuwhy_http::page::{Page, is_from_elsewhere, is_same_origin, protect};
use gpuwhy_http::{AskError, Kind};
use gpuwhy_model::is_loopback;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// From a request's head to its answer; longer than any question may take.
const PATIENCE: Duration = Duration::from_secs(150);

pub(super) async fn check(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match refusal(&site, &request) {
        Some(refused) => refused,
        None => match tokio::time::timeout(PATIENCE, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                AskError::new(Kind::Slow, "the request did not come to its end in time").into_response()
            }
        },
    };
    protect(&mut response);
    response
}

fn refusal(site: &Site, request: &Request) -> Option<Response<Body>> {
    let (headers, path) = (request.headers(), request.uri().path());
    let host = match request.uri().host() {
        // A proxy's way to ask; then that is the host.
        Some(host) => Some(host.to_string()),
        None => headers.get(HOST).and_then(|host| host.to_str().ok()).map(|host| name_of(host).to_string()),
    };
    let refused = |sentence: &str| Some(AskError::new(Kind::Refused, sentence).into_response());
    if !host.as_deref().is_some_and(|host| is_ours(site, host)) {
        return refused(
            "the request is for another host, as when a name was made to point here; use 127.0.0.1 or localhost, or start with --allow-host",
        );
    }
    if !is_same_origin(headers, site.cookie.secure) || is_from_elsewhere(headers, path) {
        return refused("the request comes from another site's page; open the dashboard itself");
    }
    if is_allowed(site, headers) || is_open(site, path) {
        return None;
    }
    if site.page && path == "/" {
        return Some(Page::node().login(StatusCode::OK, ""));
    }
    let sentence = "a token is needed: send it as `Authorization: Bearer TOKEN`";
    let mut response = gpuwhy_http::reply::json(
        StatusCode::UNAUTHORIZED,
        &json!({"error": sentence, "kind": Kind::Refused}),
    );
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(response)
}

/// What everybody may have: that it lives, the sign-in page, and files that say nothing of the trace.
fn is_open(site: &Site, path: &str) -> bool {
    path == "/api/v1/health" || site.page && (path == "/login" || Page::node().has(path))
}

/// Where there is no token, as it was asked for by name, everybody on this host is.
pub(super) fn is_allowed(site: &Site, headers: &HeaderMap) -> bool {
    if site.tokens.is_empty() {
        return true;
    }
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match bearer {
        Some(token) => site.tokens.fits(token),
        None => site.cookie.of(headers).is_some_and(|session| site.sessions.owner(&session).is_some()),
    }
}

/// On loopback there may be no token, so only the names of loopback are answered: a name that somebody else made to
/// point here is another one. Elsewhere it is TLS and the token that keep others out.
fn is_ours(site: &Site, host: &str) -> bool {
    let named = site.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
    named || !site.loopback || is_loopback(host)
}

/// Without the port.
fn name_of(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => &authority[..at],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_loopback() {
        for own in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "::1"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in
            ["localhost.evil.com", "evil.com", "127.0.0.1.evil.com", "0.0.0.0", "", "10.0.0.1", "[::]"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn ports_are_no_part_of_a_name() {
        for (authority, name) in
            [("localhost:7777", "localhost"), ("[::1]:7777", "[::1]"), ("[::1]", "[::1]"), ("a", "a")]
        {
            assert_eq!(name_of(authority), name);
        }
    }
}
