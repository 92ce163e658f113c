//! OTLP over gRPC. A call is one request with one message in a frame of five bytes more, so the way in is the one of HTTP:
//! the same limits hold while it is read, and the message is decoded once.

use super::access::{Denied, Gate};
use super::body::{BodyError, Packing};
use super::http::{COME_AGAIN, Reply, advise};
use super::{Format, Incoming, NotStored, PushError, Signal, Taking};
use crate::tokens::Grant;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use gpuwhy_cohort::shares::Tenant;
use http_body_util::{BodyExt, Full};
use prost::Message;
use std::convert::Infallible;
use std::sync::Arc;

const FRAME: usize = 5;
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const CODE: HeaderName = HeaderName::from_static("grpc-status");
const SENTENCE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// gRPC's codes, those that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

pub(super) async fn push(gate: &Gate, signal: Signal, request: Request) -> Response<Body> {
    let grant = match gate.enter(&request) {
        Ok(grant) => grant,
        Err(denied) => {
            let code = match denied {
                Denied::Unknown => Code::Unauthenticated,
                Denied::Scope => Code::PermissionDenied,
            };
            return failure(code, &denied.to_string(), false);
        }
    };
    match taken(gate, signal, request, grant).await {
        Ok(taking) => success(&taking),
        Err(error) => failure(code_of(&error), &error.to_string(), error.is_for_later()),
    }
}

pub(super) async fn unknown() -> Response<Body> {
    failure(Code::Unimplemented, "there is no such method here; OTLP's Export methods are", false)
}

async fn taken(
    gate: &Gate,
    signal: Signal,
    request: Request,
    grant: Arc<Grant>,
) -> Result<Taking, PushError> {
    let packing = request.headers().get("grpc-encoding").and_then(|packing| packing.to_str().ok());
    let packing = Packing::parse(packing)?;
    let sender = Tenant::from(grant.short.as_str());
    let (framed, mut taken) = gate.ingest.read(request.into_body(), &sender).await?;
    let (is_packed, packed) = unframed(&framed)?;
    let packing = if is_packed { packing } else { Packing::None };
    let message = gate.ingest.unpack(packed, packing, &sender, &mut taken)?;
    let incoming = Incoming { signal, format: Format::Protobuf, message, sender, taken };
    gate.ingest.take(incoming, move |cluster| grant.covers(cluster)).await
}

fn unframed(framed: &Bytes) -> Result<(bool, Bytes), PushError> {
    let wrong = || PushError::Malformed("it is not one message in a gRPC frame".into());
    let head = framed.get(..FRAME).ok_or_else(wrong)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    match head[0] {
        packed @ (0 | 1) if framed.len() == FRAME + length => Ok((packed == 1, framed.slice(FRAME..))),
        _ => Err(wrong()),
    }
}

fn code_of(error: &PushError) -> Code {
    match error {
        PushError::Body(BodyError::Full | BodyError::TooLarge(_) | BodyError::TooManyRows(_)) => {
            Code::ResourceExhausted
        }
        PushError::Body(BodyError::Slow) => Code::DeadlineExceeded,
        PushError::Body(BodyError::Packing(_)) => Code::Unimplemented,
        PushError::Body(_) | PushError::Malformed(_) => Code::InvalidArgument,
        PushError::Later(NotStored::Full) => Code::ResourceExhausted,
        PushError::Later(_) => Code::Unavailable,
    }
}

fn success(taking: &Taking) -> Response<Body> {
    let message = Reply::of(taking).encode_to_vec();
    let mut framed = BytesMut::with_capacity(FRAME + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert(CODE, HeaderValue::from_static("0"));
    let body = Full::new(framed.freeze()).with_trailers(async { Some(Ok::<_, Infallible>(trailers)) });
    let mut response = Response::new(Body::new(body));
    advise(response.headers_mut(), taking.advice.as_ref());
    as_grpc(response)
}

/// A failure is headers alone.
fn failure(code: Code, sentence: &str, again: bool) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CODE, HeaderValue::from(code as u16));
    headers.insert(SENTENCE, percent(sentence));
    if again {
        headers.insert(DETAILS, retry_info(code, sentence));
    }
    as_grpc(response)
}

fn as_grpc(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response.headers_mut().insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip,zstd"));
    response
}

/// What is no printable ASCII is written as `%20` and the like.
fn percent(sentence: &str) -> HeaderValue {
    let text: String = sentence
        .bytes()
        .map(|byte| match byte {
            b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("it failed"))
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// Without it a client takes RESOURCE_EXHAUSTED for the end.
fn retry_info(code: Code, sentence: &str) -> HeaderValue {
    let info = RetryInfo { delay: Some(Delay { seconds: COME_AGAIN as i64 }) };
    let detail = Any { type_url: RETRY_INFO.into(), value: info.encode_to_vec() };
    let status = Status { code: code as i32, message: sentence.into(), details: vec![detail] };
    HeaderValue::from_str(&STANDARD_NO_PAD.encode(status.encode_to_vec()))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_message_and_nothing_else() {
        let framed = |bytes: &[u8]| unframed(&Bytes::copy_from_slice(bytes));
        assert_eq!(framed(&[0, 0, 0, 0, 2, 7, 8]).unwrap(), (false, Bytes::from_static(&[7, 8])));
        assert_eq!(framed(&[1, 0, 0, 0, 0]).unwrap(), (true, Bytes::new()));
        for wrong in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 2, 7], &[2, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 7, 8]] {
            assert!(framed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sentences_are_headers_whatever_stands_in_them() {
        assert_eq!(percent("100% größe\n"), HeaderValue::from_static("100%25 gr%C3%B6%C3%9Fe%0A"));
    }
}
