//! Ingest: OTLP comes in by gRPC and HTTP, is decoded within limits, stored, compared with its peers, and only then
//! acknowledged, with what its cohort's threshold is.

mod attributes;
mod body;
mod budget;
mod decode;
mod door;
mod grpc;
mod http;
mod logs;
mod metrics;
mod names;
mod recent;
mod spans;
#[cfg(test)]
mod tests;
mod writer;

pub use body::{BodyError, Packing};
pub use decode::LeftOut;
pub(crate) use door::{Gate, grpc_router, http_router};
pub(crate) use writer::Writer;
pub use writer::{NotStored, Stored};

use crate::clock::now_ns;
use crate::limits::Limits;
use crate::peers::{Advice, Peers};
use crate::point::{Batch, BatchId};
use crate::store::{Retention, Store, StoreError};
use crate::tally::Tally;
use axum::body::Body;
use budget::{Budget, Taken};
use bytes::Bytes;
use decode::{AllNames, Decoding};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use ring::digest::{Context, SHA256};
use std::sync::Arc;

/// A decoded row takes about so many times the memory of what it was decoded from.
const DECODED: usize = 3;
/// Larger requests are decoded where they keep no others waiting.
const LARGE: usize = 256 << 10;

/// What OTLP calls its kinds of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Metrics,
    Logs,
    Traces,
}

impl Signal {
    pub const ALL: [Signal; 3] = [Signal::Metrics, Signal::Logs, Signal::Traces];

    /// Its path over HTTP.
    pub fn path(self) -> &'static str {
        match self {
            Signal::Metrics => "/v1/metrics",
            Signal::Logs => "/v1/logs",
            Signal::Traces => "/v1/traces",
        }
    }

    /// Its method over gRPC.
    pub fn method(self) -> &'static str {
        match self {
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        }
    }
}

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Protobuf,
    Json,
}

/// A push that is taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Taking {
    pub stored: Stored,
    pub left_out: LeftOut,
    pub advice: Option<Advice>,
}

/// Why a push is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the request is no OTLP: {0}")]
    Malformed(String),
    #[error(transparent)]
    Later(#[from] NotStored),
}

impl PushError {
    /// Whether it can come again.
    pub fn is_for_later(&self) -> bool {
        matches!(self, PushError::Body(BodyError::Full) | PushError::Later(_))
    }
}

/// A push on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) signal: Signal,
    pub(crate) format: Format,
    /// Unpacked.
    pub(crate) message: Bytes,
    /// Whose it is: another's push is another, whatever is in it.
    pub(crate) sender: String,
    pub(crate) taken: Taken,
}

/// Everything that takes a push in.
#[derive(Debug)]
pub struct Ingest {
    pub(crate) limits: Limits,
    budget: Budget,
    names: AllNames,
    writer: Writer,
    pub(crate) tally: Arc<Tally>,
    peers: Arc<Peers>,
}

impl Ingest {
    pub fn new(
        store: Arc<dyn Store>,
        peers: Arc<Peers>,
        tally: Arc<Tally>,
        limits: Limits,
        keep: Retention,
    ) -> Result<Ingest, StoreError> {
        let writer = Writer::start(store, tally.clone(), keep)?;
        Ok(Ingest {
            budget: Budget::new(limits.memory_bytes),
            names: AllNames::new(&limits),
            limits,
            writer,
            tally,
            peers,
        })
    }

    /// Takes in a message that is here already.
    pub async fn push(
        self: &Arc<Self>,
        signal: Signal,
        format: Format,
        message: Bytes,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        let taken = self.budget.none();
        self.take(Incoming { signal, format, message, sender: String::new(), taken }, may_push).await
    }

    /// Judges all ranks, and writes down what is new.
    pub(crate) async fn judge(&self) {
        let (now_ns, peers) = (now_ns(), self.peers.clone());
        // Of many ranks it takes a while.
        let findings = tokio::task::spawn_blocking(move || peers.judge(now_ns)).await.unwrap_or_default();
        if findings.is_empty() {
            return;
        }
        let words: Vec<&str> = findings.iter().map(|found| &*found.title).collect();
        let id = id("fleet", Signal::Logs, format!("{now_ns} {}", words.join(" ")).as_bytes());
        let batch = Batch { id, received_ns: now_ns, findings, ..Batch::default() };
        if let Err(error) = self.writer.store(Arc::new(batch), self.budget.none()).await {
            eprintln!("gpuwhy-fleet: what was found could not be stored: {error}");
        }
    }

    /// Reads a body as far as is allowed.
    pub(crate) async fn read(&self, body: Body) -> Result<(Bytes, Taken), BodyError> {
        let mut taken = self.budget.none();
        let body = body::read(body, &self.limits, &mut taken).await?;
        Ok((body, taken))
    }

    pub(crate) fn unpack(
        &self,
        packed: Bytes,
        packing: Packing,
        taken: &mut Taken,
    ) -> Result<Bytes, BodyError> {
        body::unpack(packed, packing, &self.limits, taken)
    }

    /// Takes a push in; it is durable when this returns. `may_push` says of which clusters.
    pub(crate) async fn take(
        self: &Arc<Self>,
        incoming: Incoming,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        let taken = self.taken(incoming, may_push).await;
        match &taken {
            Ok(taking) => self.tally.left_out(taking.left_out.count()),
            Err(error) if error.is_for_later() => self.tally.busy(),
            Err(_) => self.tally.refused(),
        }
        taken
    }

    async fn taken(
        self: &Arc<Self>,
        mut incoming: Incoming,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        incoming.taken.more(incoming.message.len() * DECODED).map_err(BodyError::from)?;
        let Incoming { signal, format, message, sender, taken } = incoming;
        let decoded = match message.len() > LARGE {
            false => self.decode(signal, format, &message, &sender, &may_push),
            true => {
                let me = self.clone();
                let work = move || me.decode(signal, format, &message, &sender, &may_push);
                let failed = |_| PushError::Malformed("decoding it failed".into());
                tokio::task::spawn_blocking(work).await.map_err(failed)?
            }
        };
        let (batch, left_out) = decoded?;
        let batch = Arc::new(batch);
        let stored = match batch.rows() {
            // There is nothing to lose.
            0 => Stored::Now,
            _ => self.writer.store(batch.clone(), taken).await?,
        };
        if stored == Stored::Now {
            self.peers.take(&batch);
        }
        Ok(Taking { stored, left_out, advice: self.peers.advice(&batch) })
    }

    fn decode(
        &self,
        signal: Signal,
        format: Format,
        message: &[u8],
        sender: &str,
        may_push: &dyn Fn(&str) -> bool,
    ) -> Result<(Batch, LeftOut), PushError> {
        let now_ns = now_ns();
        let batch = Batch { id: id(sender, signal, message), received_ns: now_ns, ..Batch::default() };
        let mut decoding = Decoding {
            limits: &self.limits,
            names: &self.names,
            may_push,
            now_ns,
            batch,
            left_out: LeftOut::default(),
        };
        match signal {
            Signal::Metrics => decoding.metrics(&parsed::<ExportMetricsServiceRequest>(format, message)?),
            Signal::Logs => decoding.logs(&parsed::<ExportLogsServiceRequest>(format, message)?),
            Signal::Traces => decoding.spans(&parsed::<ExportTraceServiceRequest>(format, message)?),
        }
        Ok((decoding.batch, decoding.left_out))
    }
}

fn parsed<M>(format: Format, message: &[u8]) -> Result<M, PushError>
where
    M: Message + Default + serde::de::DeserializeOwned,
{
    match format {
        Format::Protobuf => M::decode(message).map_err(|error| PushError::Malformed(error.to_string())),
        Format::Json => {
            serde_json::from_slice(message).map_err(|error| PushError::Malformed(error.to_string()))
        }
    }
}

/// A push that comes again is the same to the last bit, and no other is: every point has its time in nanoseconds. So any
/// client's are told, whether it sends an id or not.
fn id(sender: &str, signal: Signal, message: &[u8]) -> BatchId {
    let mut hash = Context::new(&SHA256);
    hash.update(sender.as_bytes());
    hash.update(&[0, signal as u8]);
    hash.update(message);
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finish().as_ref()[..16]);
    BatchId::from_le_bytes(first)
}
