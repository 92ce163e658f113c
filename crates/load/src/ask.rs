//! Asks the fleet what it found, as anybody would: over its API.

use crate::LoadError;
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub(crate) struct Asker {
    authority: String,
    token: Option<String>,
}

impl Asker {
    pub(crate) fn new(address: &str, token: Option<&str>) -> Result<Asker, LoadError> {
        let wrong = || LoadError::Address(address.into());
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
        Ok(Asker { authority: authority.to_string(), token: token.map(String::from) })
    }

    /// A tool's answer.
    pub(crate) async fn tool(&self, name: &str, asked: &Value) -> Result<Value, LoadError> {
        let answer = self.post(&format!("/api/v1/tools/{name}"), asked.to_string()).await;
        answer.map_err(|said| LoadError::Asking { address: self.authority.clone(), said })
    }

    async fn post(&self, path: &str, body: String) -> Result<Value, String> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let driven = tokio::spawn(connection);
        let mut request =
            Request::post(path).header("host", &self.authority).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let reply = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = reply.status();
        let body = reply.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        driven.abort();
        let said: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() { Ok(said) } else { Err(format!("{status} {said}")) }
    }
}
