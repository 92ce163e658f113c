//! The dashboard's files, which are in the binary.

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use ring::digest::{SHA256, digest};
use std::fmt::Write;

struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

/// All files of `web/`; listed when this is built.
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));
const LOGIN: &str = include_str!("../../../../web/login.html");

/// What pages load. The pages themselves have paths of their own.
fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name && !asset.name.ends_with(".html"))
}

pub(super) fn is_file(path: &str) -> bool {
    path.strip_prefix('/').and_then(find).is_some()
}

pub(super) async fn index(headers: HeaderMap) -> Response<Body> {
    match ASSETS.iter().find(|asset| asset.name == "index.html") {
        Some(asset) => send(asset, &headers),
        None => super::missing::no_such_path().await.into_response(),
    }
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    match find(&name) {
        Some(asset) => send(asset, &headers),
        None => super::missing::no_such_path().await.into_response(),
    }
}

/// The page where a token is shown; `said` is why it is shown again.
pub(super) fn login_page(status: StatusCode, said: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(LOGIN.replace("{said}", said)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Asked for anew each time, and sent only when it has changed.
fn send(asset: &Asset, headers: &HeaderMap) -> Response<Body> {
    let tag = tag(asset.bytes);
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let same = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut response = Response::new(if same { Body::empty() } else { Body::from(asset.bytes) });
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn tag(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let mut tag = String::from("\"");
    for byte in digest.as_ref().iter().take(12) {
        // Writing to a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}
