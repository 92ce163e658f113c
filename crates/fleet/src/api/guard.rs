//! The guard: token, rate limit, the handler, and a line of the audit with what came of it. Who is refused is audited, too: apart from
//! what was allowed, and beyond a few lines by number, so that nobody fills the log. That the page or the server's health was looked
//! at without a token is not.

use super::refusals::network;
use super::{Caller, Site};
use crate::api::audit::Entry;
use crate::tokens::{Grant, bearer};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use gpuwhy_http::page::{Page, is_from_elsewhere, is_same_origin, protect};
use gpuwhy_http::reply::json;
use gpuwhy_http::{Kind, Peer};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What everybody may see; beside it, the dashboard's files, which say nothing of any cluster.
const OPEN: [&str; 4] = ["/api/versions", "/api/v1/health", "/login", "/logout"];
/// From a request's head to its answer; longer than any question may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn check(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match Page::fleet().has(request.uri().path()) {
        true => next.run(request).await,
        false => guarded(&site, request, next).await,
    };
    protect(&mut response);
    response
}

async fn guarded(site: &Site, mut request: Request, next: Next) -> Response<Body> {
    let began = Instant::now();
    let grant = granted(site, &request);
    let peer = request.extensions().get::<Peer>().copied();
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let limited = match &grant {
        Some(grant) => site.rates.take(&grant.short, began),
        None => {
            let address = network(peer).map(|address| address.to_string());
            site.strangers.take(&address.unwrap_or_default(), began)
        }
    };
    let short = grant.as_ref().map(|grant| grant.short.clone());
    let response = if let Err(seconds) = limited {
        too_often(seconds)
    } else if grant.is_none() && path == "/" && method == Method::GET {
        Page::fleet().login(StatusCode::OK, "")
    } else if grant.is_none() && !OPEN.contains(&path.as_str()) {
        unknown()
    } else if matches!(path.as_str(), "/login" | "/logout") && is_foreign(site, &request) {
        let sentence = "the request comes from another site's page; open the dashboard itself";
        json(StatusCode::FORBIDDEN, &json!({"error": sentence, "kind": Kind::Refused}))
    } else {
        request.extensions_mut().insert(Caller(grant));
        let slow = || {
            let sentence = "the request did not come to its end in time";
            json(StatusCode::GATEWAY_TIMEOUT, &json!({"error": sentence, "kind": Kind::Slow}))
        };
        tokio::time::timeout(PATIENCE, next.run(request)).await.unwrap_or_else(|_| slow())
    };
    let status = response.status();
    // A token may have been shown in the form.
    let entered = response.extensions().get::<Caller>().and_then(|caller| caller.0.as_ref());
    let short = short.or_else(|| entered.map(|grant| grant.short.clone()));
    let entry = Entry {
        peer,
        token: short.as_deref(),
        method: method.as_str(),
        path: &path,
        tool: None,
        status: status.as_u16(),
        took_ms: began.elapsed().as_millis() as u64,
    };
    if status == StatusCode::TOO_MANY_REQUESTS {
        site.audit.refuse(&entry);
    } else if let Some(token) = &short {
        site.audit.write(token, &entry);
    } else if !status.is_success() && !status.is_redirection() {
        site.audit.refuse(&entry);
    }
    response
}

/// By the token that is shown, else by the session of a browser whose own page asks.
fn granted(site: &Site, request: &Request) -> Option<Arc<Grant>> {
    match bearer(request.headers()) {
        Some(token) => site.tokens.grant(token),
        None if is_foreign(site, request) => None,
        None => site.cookie.of(request.headers()).and_then(|session| site.sessions.owner(&session)),
    }
}

/// Another site's page asks.
fn is_foreign(site: &Site, request: &Request) -> bool {
    let headers = request.headers();
    !is_same_origin(headers, site.cookie.secure) || is_from_elsewhere(headers, request.uri().path())
}

/// The same for every path, whether there is something at it or not.
fn unknown() -> Response<Body> {
    let sentence = "a token is needed: send it as `Authorization: Bearer TOKEN`";
    let mut response = json(StatusCode::UNAUTHORIZED, &json!({"error": sentence, "kind": Kind::Refused}));
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn too_often(seconds: u64) -> Response<Body> {
    let sentence = "you ask too often; wait a second";
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, &json!({"error": sentence, "kind": Kind::Busy}));
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}
