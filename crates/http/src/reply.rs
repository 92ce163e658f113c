//! Replies: JSON, and errors as one sentence of it.

use crate::{AskError, Kind};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl IntoResponse for AskError {
    fn into_response(self) -> Response<Body> {
        let status = match self.kind {
            Kind::Usage => StatusCode::BAD_REQUEST,
            Kind::Nothing => StatusCode::NOT_FOUND,
            Kind::Slow => StatusCode::GATEWAY_TIMEOUT,
            Kind::Busy | Kind::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Refused => StatusCode::FORBIDDEN,
            Kind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        json(status, &json!({"error": self.sentence, "kind": self.kind}))
    }
}
