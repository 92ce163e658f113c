//! One connection to one node: questions and answers of HTTP/1.1. Nothing is followed anywhere else, and nothing is waited for without an end.

use crate::clock::{self, Sample};
use crate::{Node, Trouble};
use bytes::Bytes;
use gpuwhy_connect::{Connector, Tls, certificate_trouble};
use gpuwhy_store::merge::Offset;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use serde_json::Value;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often somebody who waits looks whether to go on.
const PAUSE: Duration = Duration::from_millis(100);
/// Of an answer in JSON.
const LARGEST_JSON: usize = 4 << 20;
/// Questions for the time.
const ROUND_TRIPS: usize = 8;
/// Of a node's own words.
const MAX_WORDS: usize = 300;

/// How long to wait, and whether to wait at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) time: Duration,
    pub(crate) stop: &'a AtomicBool,
}

impl Patience<'_> {
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, Trouble> {
        let mut work = pin!(work);
        let until = Instant::now() + self.time;
        loop {
            match tokio::time::timeout(PAUSE, &mut work).await {
                Ok(done) => return Ok(done),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Err(Trouble::Interrupted),
                Err(_) if Instant::now() >= until => return Err(Trouble::Slow(self.time)),
                Err(_) => {}
            }
        }
    }
}

pub(crate) struct Client<'a> {
    sender: SendRequest<Empty<Bytes>>,
    host: HeaderValue,
    token: Option<HeaderValue>,
    tls: bool,
    patience: Patience<'a>,
}

impl<'a> Client<'a> {
    pub(crate) async fn connect(
        node: &Node,
        token: Option<&str>,
        ca: Option<&Path>,
        patience: Patience<'a>,
    ) -> Result<Client<'a>, Trouble> {
        let tls = node.tls.then_some(Tls { certificate: ca, protocol: "http/1.1" });
        let connector =
            Connector::new(&node.host, node.port, tls).map_err(|error| Trouble::Here(error.to_string()))?;
        let connection =
            patience.wait(connector.connect()).await?.map_err(|error| match certificate_trouble(&error) {
                Some(why) => Trouble::Certificate(why),
                None if error.kind() == std::io::ErrorKind::InvalidData => Trouble::Tls(error.to_string()),
                None => Trouble::Unreachable(error.to_string()),
            })?;
        let cut = |error: hyper::Error| Trouble::Unreachable(error.to_string());
        let (sender, driver) = patience.wait(http1::handshake(connection)).await?.map_err(cut)?;
        // It ends when the sender does; what went wrong is told there.
        tokio::spawn(async move { drop(driver.await) });
        let secret = |token: &str| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Trouble::Here("the token has characters that HTTP cannot send".into()))?;
            value.set_sensitive(true);
            Ok::<_, Trouble>(value)
        };
        let host = HeaderValue::try_from(format!("{}:{}", node.host, node.port))
            .map_err(|error| Trouble::Here(error.to_string()))?;
        Ok(Client { sender, host, token: token.map(secret).transpose()?, tls: node.tls, patience })
    }

    /// An answer that is one, up to its body.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Response<Incoming>, Trouble> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() =
            path.parse().map_err(|error: http::uri::InvalidUri| Trouble::Here(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("gpuwhy/", env!("CARGO_PKG_VERSION"))));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let cut = |error: hyper::Error| match error.is_parse() {
            true if !self.tls => {
                Trouble::Stranger("its answer is no HTTP; if it has TLS, write https://".into())
            }
            true => Trouble::Stranger("its answer is no HTTP".into()),
            false => Trouble::Cut(error.to_string()),
        };
        self.patience.wait(self.sender.ready()).await?.map_err(cut)?;
        let response = self.patience.wait(self.sender.send_request(request)).await?.map_err(cut)?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::UNAUTHORIZED if self.token.is_none() => Err(Trouble::NoToken),
            StatusCode::UNAUTHORIZED => Err(Trouble::WrongToken),
            status => {
                let message: Value = serde_json::from_slice(&self.body(response).await?).unwrap_or_default();
                let words =
                    message["error"].as_str().map(|words| words.chars().take(MAX_WORDS).collect::<String>());
                Err(match words {
                    Some(words) if words.contains("no question of that name") => Trouble::Old,
                    Some(words) => Trouble::Refused(words),
                    None => Trouble::Stranger(format!("it says HTTP {status}")),
                })
            }
        }
    }

    pub(crate) async fn json(&mut self, path: &str) -> Result<Value, Trouble> {
        let response = self.get(path).await?;
        let body = self.body(response).await?;
        serde_json::from_slice(&body).map_err(|_| Trouble::Stranger("its answer is no JSON".into()))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Vec<u8>, Trouble> {
        let mut incoming = response.into_body();
        let mut body = Vec::new();
        while let Some(frame) = self.patience.wait(incoming.frame()).await? {
            let frame = frame.map_err(|error| Trouble::Cut(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if body.len() + data.len() > LARGEST_JSON {
                return Err(Trouble::Stranger("its answer does not end".into()));
            }
            body.extend_from_slice(&data);
        }
        Ok(body)
    }

    /// Its clock against ours.
    pub(crate) async fn offset(&mut self) -> Result<Offset, Trouble> {
        let mut samples = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let asked = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
            let began = Instant::now();
            let health = self.json("/api/v1/health").await?;
            let took = began.elapsed();
            if health["ok"] != true {
                return Err(Trouble::Stranger("/api/v1/health says nothing".into()));
            }
            // Who may not ask is told only that it lives.
            let Some(message) = health["now_ns"].as_u64() else {
                return Err(if self.token.is_none() { Trouble::NoToken } else { Trouble::WrongToken });
            };
            samples.push(Sample {
                asked_ns: asked.min(i64::MAX as u128) as i64,
                took_ns: took.as_nanos().min(i64::MAX as u128) as i64,
                sent_ns: message.min(i64::MAX as u64) as i64,
            });
        }
        clock::offset(&samples).ok_or_else(|| Trouble::Stranger("it does not say its time".into()))
    }
}
