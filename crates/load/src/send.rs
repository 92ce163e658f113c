//! Pushes by gRPC, and how long each answer took.

use crate::LoadError;
use crate::address::Address;
use bytes::Bytes;
use gpuwhy_connect::grpc::{Raw, channel};
use gpuwhy_connect::{Connector, innermost};
use http::uri::PathAndQuery;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// As long as agents would wait.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A push that is refused for now comes again so often.
const TRIES: u32 = 5;

/// What became of the pushes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub taken: AtomicU64,
    pub again: AtomicU64,
    pub failed: AtomicU64,
    pub bytes: AtomicU64,
    /// Of answers that took a push, in microseconds.
    pub micros: Mutex<Vec<u32>>,
    pub last_error: Mutex<Option<String>>,
}

pub(crate) struct Sender {
    channels: Vec<Channel>,
    token: Option<MetadataValue<Ascii>>,
    pub counts: Counts,
}

impl Sender {
    /// `connector` leads to the address, with HTTP/2 in it.
    pub(crate) fn new(
        address: &Address,
        connector: &Connector,
        token: Option<&str>,
        connections: usize,
    ) -> Result<Sender, LoadError> {
        let wrong = |_| LoadError::Address(address.url.clone());
        let channels = (0..connections.max(1)).map(|_| channel(&address.url, connector.clone(), TIMEOUT));
        let channels = channels.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let token = token.map(|token| format!("Bearer {token}").parse()).transpose();
        let token = token.map_err(|_| LoadError::Token)?;
        Ok(Sender { channels, token, counts: Counts::default() })
    }

    /// Sends it until it is taken, or for good refused.
    pub(crate) async fn send(&self, agent: usize, method: &'static str, body: Bytes) {
        for round in 0..TRIES {
            let begun = Instant::now();
            match self.once(agent, method, body.clone()).await {
                Ok(()) => {
                    self.counts.taken.fetch_add(1, Ordering::Relaxed);
                    self.counts.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
                    let took = begun.elapsed().as_micros().min(u128::from(u32::MAX)) as u32;
                    if let Ok(mut micros) = self.counts.micros.lock() {
                        micros.push(took);
                    }
                    return;
                }
                Err(status) => {
                    let comes_again = matches!(
                        status.code(),
                        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
                    );
                    if let Ok(mut last) = self.counts.last_error.lock() {
                        *last = Some(format!("{:?} {}", status.code(), status.message()));
                    }
                    if !comes_again {
                        break;
                    }
                    self.counts.again.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(250 << round)).await;
                }
            }
        }
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
    }

    async fn once(&self, agent: usize, method: &'static str, body: Bytes) -> Result<(), Status> {
        let Some(channel) = self.channels.get(agent % self.channels.len().max(1)) else {
            return Err(Status::internal("no connection"));
        };
        let mut client = Grpc::new(channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(innermost(&error)))?;
        let mut request = Request::new(body);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        client
            .unary(request, PathAndQuery::from_static(method), Raw)
            .await
            .map(|_: tonic::Response<Bytes>| ())
    }
}
