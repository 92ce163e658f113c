//! Asks the fleet what it found, as anybody would: over its API.

use crate::LoadError;
use crate::address::Address;
use bytes::Bytes;
use gpuwhy_connect::{Connector, certificate_trouble};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

pub(crate) struct Asker {
    address: Address,
    connector: Connector,
    token: Option<String>,
}

impl Asker {
    /// `connector` leads to the address, with HTTP/1.1 in it.
    pub(crate) fn new(address: Address, connector: Connector, token: Option<&str>) -> Asker {
        Asker { address, connector, token: token.map(String::from) }
    }

    /// A tool's answer.
    pub(crate) async fn tool(&self, name: &str, asked: &Value) -> Result<Value, LoadError> {
        let answer = self.post(&format!("/api/v1/tools/{name}"), asked.to_string()).await;
        answer.map_err(|message| LoadError::Asking { address: self.address.url.clone(), message })
    }

    async fn post(&self, path: &str, body: String) -> Result<Value, String> {
        let connection = self.connector.connect().await.map_err(|error| {
            let trouble = certificate_trouble(&error).map(|why| format!("its certificate: {why}"));
            trouble.unwrap_or_else(|| error.to_string())
        })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(connection).await.map_err(|error| error.to_string())?;
        let driven = tokio::spawn(connection);
        let request = Request::post(path).header("host", &self.address.authority);
        let mut request = request.header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let reply = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = reply.status();
        let body = reply.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        driven.abort();
        let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() { Ok(message) } else { Err(format!("{status} {message}")) }
    }
}
