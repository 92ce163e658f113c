//! Replies where there is nothing.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use gpuwhy_http::reply::json;
use gpuwhy_http::{AskError, Kind};
use serde_json::json;

pub(super) async fn no_such_path() -> AskError {
    AskError::new(Kind::Nothing, "there is nothing at this path; /api/v1 lists the questions")
}

pub(super) async fn wrong_method() -> Response<Body> {
    json(
        StatusCode::METHOD_NOT_ALLOWED,
        &json!({"error": "this path is not asked with this method; /api/v1/openapi.json says with which", "kind": Kind::Usage}),
    )
}
