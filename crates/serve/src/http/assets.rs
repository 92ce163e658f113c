//! The dashboard's files, which are in the binary.

use super::missing::no_such_path;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse;
use gpuwhy_http::page::Page;

pub(super) async fn index(headers: HeaderMap) -> Response<Body> {
    match Page::node().index(&headers) {
        Some(page) => page,
        None => no_such_path().await.into_response(),
    }
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    match Page::node().file(&name, &headers) {
        Some(file) => file,
        None => no_such_path().await.into_response(),
    }
}
