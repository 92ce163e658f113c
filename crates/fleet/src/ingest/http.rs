//! OTLP over HTTP: protobuf and JSON, answered as they were asked.

use super::access::{Denied, Gate};
use super::body::{BodyError, Packing};
use super::{Format, Incoming, PushError, Signal, Taking};
use crate::peers::Advice;
use crate::tokens::Grant;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use gpuwhy_cohort::shares::Tenant;
use prost::Message;
use serde_json::{Value, json};
use std::sync::Arc;

/// Seconds after which whoever was told to come later may come.
pub(super) const COME_AGAIN: u64 = 1;

/// The answer to each kind of push has the same shape.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Reply {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<Partial>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Partial {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Reply {
    pub(super) fn of(taking: &Taking) -> Reply {
        let rejected = taking.left_out.count() as i64;
        let partial = Partial { rejected, message: taking.left_out.sentence() };
        Reply { partial_success: (rejected > 0).then_some(partial) }
    }

    fn json(&self, signal: Signal) -> Value {
        let rejected = match signal {
            Signal::Metrics => "rejectedDataPoints",
            Signal::Logs => "rejectedLogRecords",
            Signal::Traces => "rejectedSpans",
        };
        match &self.partial_success {
            None => json!({}),
            // 64-bit numbers are strings in protobuf's JSON.
            Some(partial) => json!({"partialSuccess": {
                rejected: partial.rejected.to_string(), "errorMessage": partial.message,
            }}),
        }
    }
}

pub(super) async fn push(gate: &Gate, signal: Signal, request: Request) -> Response<Body> {
    let format = match request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) {
        Some(kind) if kind.starts_with("application/json") => Format::Json,
        Some(kind) if kind.starts_with("application/x-protobuf") => Format::Protobuf,
        _ => {
            let sentence = "OTLP is sent as application/x-protobuf or application/json";
            return failure(Format::Json, StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence);
        }
    };
    let grant = match gate.enter(&request) {
        Ok(grant) => grant,
        Err(denied) => {
            let status = match denied {
                Denied::Unknown => StatusCode::UNAUTHORIZED,
                Denied::Scope => StatusCode::FORBIDDEN,
            };
            let mut response = failure(format, status, &denied.to_string());
            if denied == Denied::Unknown {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            return response;
        }
    };
    match taken(gate, signal, format, request, grant).await {
        Ok(taking) => {
            let reply = Reply::of(&taking);
            let body = match format {
                Format::Protobuf => reply.encode_to_vec(),
                Format::Json => reply.json(signal).to_string().into_bytes(),
            };
            let mut response = written(format, StatusCode::OK, body);
            advise(response.headers_mut(), taking.advice.as_ref());
            response
        }
        Err(error) => {
            let mut response = failure(format, status_of(&error), &error.to_string());
            if error.is_for_later() {
                response.headers_mut().insert(RETRY_AFTER, COME_AGAIN.into());
            }
            response
        }
    }
}

async fn taken(
    gate: &Gate,
    signal: Signal,
    format: Format,
    request: Request,
    grant: Arc<Grant>,
) -> Result<Taking, PushError> {
    let packing = request.headers().get(CONTENT_ENCODING).and_then(|packing| packing.to_str().ok());
    let packing = Packing::parse(packing)?;
    let sender = Tenant::from(grant.short.as_str());
    let (packed, mut taken) = gate.ingest.read(request.into_body(), &sender).await?;
    let message = gate.ingest.unpack(packed, packing, &sender, &mut taken)?;
    let incoming = Incoming { signal, format, message, sender, taken };
    gate.ingest.take(incoming, move |cluster| grant.covers(cluster)).await
}

fn status_of(error: &PushError) -> StatusCode {
    match error {
        PushError::Body(BodyError::Full) => StatusCode::TOO_MANY_REQUESTS,
        PushError::Body(BodyError::TooLarge(_) | BodyError::TooManyRows(_)) => StatusCode::PAYLOAD_TOO_LARGE,
        PushError::Body(BodyError::Slow) => StatusCode::REQUEST_TIMEOUT,
        PushError::Body(BodyError::Packing(_)) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        PushError::Body(_) | PushError::Malformed(_) => StatusCode::BAD_REQUEST,
        PushError::Later(super::NotStored::Full) => StatusCode::TOO_MANY_REQUESTS,
        PushError::Later(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn failure(format: Format, status: StatusCode, sentence: &str) -> Response<Body> {
    let code = i32::from(status.as_u16() == 429) * 8;
    let body = match format {
        Format::Protobuf => Status { code, message: sentence.into() }.encode_to_vec(),
        Format::Json => json!({"code": code, "message": sentence}).to_string().into_bytes(),
    };
    written(format, status, body)
}

fn written(format: Format, status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let kind = match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The cohort's threshold, for nodes that classify themselves.
pub(super) fn advise(headers: &mut HeaderMap, advice: Option<&Advice>) {
    let Some(advice) = advice else { return };
    let mut words =
        vec![("gpuwhy-quorum-met", advice.quorum_met.to_string()), ("gpuwhy-cohort", advice.cohort.clone())];
    words.extend(advice.threshold.map(|threshold| ("gpuwhy-threshold", threshold.to_string())));
    for (name, value) in words {
        // A cohort's name may have what no header has.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
