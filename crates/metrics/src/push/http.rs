//! OTLP as protobuf in HTTP/1.1, over one connection that is made again when it is gone.

use super::advice::advice;
use super::queue::Outgoing;
use super::retry::{Outcome, of_http, of_reply};
use super::target::Target;
use crate::ranks::Advice;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use gpuwhy_connect::Connector;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Of an answer.
const LARGEST_REPLY: usize = 1 << 20;
/// Letters of what a server says.
const MAX_REASON_LEN: usize = 200;

pub(super) struct HttpSender {
    target: Target,
    headers: HeaderMap,
    connector: Connector,
    open: Option<SendRequest<Full<Bytes>>>,
    /// What the last answer told beside that it was taken.
    pub(super) advice: Option<Advice>,
}

impl HttpSender {
    pub(super) fn new(target: &Target, connector: Connector) -> Result<HttpSender, String> {
        Ok(HttpSender {
            target: target.clone(),
            headers: headers(target)?,
            connector,
            open: None,
            advice: None,
        })
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Outcome {
        let timeout: Duration = self.target.timeout;
        let outcome = match tokio::time::timeout(timeout, self.ask(outgoing)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(message)) => Outcome::Later { after: None, message },
            Err(_) => Outcome::Later { after: None, message: format!("no answer within {timeout:?}") },
        };
        // A connection on which something went wrong may have an answer to come that nobody waits for.
        if !matches!(outcome, Outcome::Taken { .. }) {
            self.open = None;
        }
        outcome
    }

    async fn ask(&mut self, outgoing: &Outgoing) -> Result<Outcome, String> {
        let mut sender = match self.open.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let words = |error: hyper::Error| gpuwhy_connect::innermost(&error);
        sender.ready().await.map_err(words)?;
        let response = sender.send_request(self.request(outgoing)?).await.map_err(words)?;
        let status = response.status();
        let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.map(ToString::to_string);
        let headers = response.headers();
        let advice = advice(|name| headers.get(name).and_then(|value| value.to_str().ok()));
        let is_text = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("text/plain")));
        let body = body_of(response).await?;
        if status.is_success() {
            self.open = Some(sender);
            self.advice = advice;
            return Ok(of_reply(&body));
        }
        let why = if is_text { first_line(&body) } else { String::new() };
        let message = format!("HTTP {status} from {}{why}", self.target.path_of(outgoing.signal));
        Ok(of_http(status.as_u16(), after.as_deref(), SystemTime::now(), message))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let connection = self.connector.connect().await.map_err(|error| error.to_string())?;
        let (sender, driver) = http1::handshake(connection).await.map_err(|error| error.to_string())?;
        // It ends when the sender does; what went wrong is told there.
        tokio::spawn(async move { drop(driver.await) });
        Ok(sender)
    }

    fn request(&self, outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, String> {
        let body = match self.target.gzip {
            true => gzipped(&outgoing.body).map_err(|error| error.to_string())?,
            false => outgoing.body.clone(),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        let path = self.target.path_of(outgoing.signal);
        *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

fn headers(target: &Target) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let host = format!("{}:{}", target.host, target.port);
    headers.insert(header::HOST, HeaderValue::try_from(host).map_err(|error| error.to_string())?);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers
        .insert(header::USER_AGENT, HeaderValue::from_static(concat!("gpuwhy/", env!("CARGO_PKG_VERSION"))));
    if target.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in &target.headers {
        let wrong = || format!("OTEL_EXPORTER_OTLP_HEADERS has '{name}', which is no header HTTP can send");
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}

fn gzipped(body: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body)?;
    Ok(encoder.finish()?.into())
}

/// What a server says to people, after a colon: Prometheus names the flag it wants. Nothing where it only repeats the
/// status.
fn first_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default().trim();
    let line: String = line.chars().filter(|letter| !letter.is_control()).take(MAX_REASON_LEN).collect();
    let has_detail = !line.is_empty() && !line.starts_with(|letter: char| letter.is_ascii_digit());
    if has_detail { format!(": {line}") } else { String::new() }
}

async fn body_of(response: Response<Incoming>) -> Result<Bytes, String> {
    let mut incoming = response.into_body();
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| gpuwhy_connect::innermost(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len() + data.len() > LARGEST_REPLY {
            return Err("the server's answer does not end".into());
        }
        body.extend_from_slice(&data);
    }
    Ok(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_quoted_in_one_short_line_that_does_no_harm() {
        let flag = b"otlp write receiver needs to be enabled with --web.enable-otlp-receiver\n";
        assert_eq!(
            first_line(flag),
            ": otlp write receiver needs to be enabled with --web.enable-otlp-receiver"
        );
        assert_eq!(first_line(b"404 page not found\n"), "", "the status says that already");
        assert_eq!(first_line(b""), "");
        assert_eq!(first_line(b"\x1b[31mred\nmore"), ": [31mred");
        assert_eq!(first_line("x".repeat(9999).as_bytes()).len(), MAX_REASON_LEN + 2);
    }
}
