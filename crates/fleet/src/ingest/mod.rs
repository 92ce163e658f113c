//! Ingest: OTLP comes in by gRPC and HTTP, is decoded within limits, is made durable in the journal, and only then acknowledged,
//! with what its cohort's threshold is. Behind that it is stored, and compared with its peers.

mod attributes;
#[cfg(test)]
mod behind;
mod body;
mod budget;
mod comparing;
mod decode;
mod door;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod http;
mod logs;
mod metrics;
mod names;
mod spans;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::journal::{NotStored, Stored};
pub use body::{BodyError, Packing};
pub(crate) use budget::{Budget, Taken};
pub use decode::LeftOut;
pub(crate) use door::{Gate, grpc_router, http_router};

use crate::clock::Now;
use crate::journal::{Journal, Progress};
use crate::limits::Limits;
use crate::peers::{Advice, Peers};
use crate::point::{Batch, BatchId};
use crate::store::{Retention, Store, StoreError};
use crate::tally::Tally;
use axum::body::Body;
use bytes::Bytes;
use comparing::Comparing;
use decode::{AllNames, Decoding, Room};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use ring::digest::{Context, SHA256};
use std::path::Path;
use std::sync::Arc;
use writer::Writer;

/// A decoded row takes about so many times the memory of what it was decoded from.
const DECODED: usize = 3;
/// And what takes none has its place in line.
const LEAST: usize = 1 << 10;
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
    pub(crate) tally: Arc<Tally>,
    peers: Arc<Peers>,
    // They end in this order: what is found is taken down, what is taken down is stored.
    _comparing: Comparing,
    journal: Arc<Journal>,
    _writer: Writer,
}

impl Ingest {
    /// In the folder of the store, which is locked by it.
    pub fn new(
        data: &Path,
        store: Arc<dyn Store>,
        peers: Arc<Peers>,
        tally: Arc<Tally>,
        limits: Limits,
        keep: Retention,
    ) -> Result<Ingest, StoreError> {
        let (known, stored) = (store.recent()?, store.stored()?);
        let journal = Journal::open(data, known.clone(), stored, limits.journal_bytes, tally.clone())?;
        let journal = Arc::new(journal);
        let writer = Writer::start(store, &journal, known, tally.clone(), keep)?;
        let comparing = Comparing::start(peers.clone(), journal.clone())?;
        Ok(Ingest {
            budget: Budget::new(limits.memory_bytes),
            names: AllNames::new(&limits),
            limits,
            tally,
            peers,
            _comparing: comparing,
            journal,
            _writer: writer,
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

    /// How far the store is behind.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        self.journal.progress()
    }

    /// Reads a body as far as is allowed.
    pub(crate) async fn read(&self, body: Body) -> Result<(Bytes, Taken), BodyError> {
        let mut taken = self.budget.none();
        let body = body::read(body, &self.limits, &mut taken).await;
        Ok((body.inspect_err(|error| self.note_full(error))?, taken))
    }

    pub(crate) fn unpack(
        &self,
        packed: Bytes,
        packing: Packing,
        taken: &mut Taken,
    ) -> Result<Bytes, BodyError> {
        body::unpack(packed, packing, &self.limits, taken).inspect_err(|error| self.note_full(error))
    }

    fn note_full(&self, error: &BodyError) {
        if matches!(error, BodyError::Full) {
            self.turn_away();
        }
    }

    fn turn_away(&self) {
        self.tally.busy();
        self.peers.turned_away();
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
            Err(error) if error.is_for_later() => self.turn_away(),
            Err(_) => self.tally.refused(),
        }
        taken
    }

    async fn taken(
        self: &Arc<Self>,
        mut incoming: Incoming,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        incoming.taken.more(incoming.message.len() * DECODED + LEAST).map_err(BodyError::from)?;
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
            _ => self.journal.append(&batch).await?,
        };
        let advice = self.peers.advice(&batch);
        if stored == Stored::Now {
            self.peers.give(batch, Now::read(), taken);
        }
        Ok(Taking { stored, left_out, advice })
    }

    fn decode(
        &self,
        signal: Signal,
        format: Format,
        message: &[u8],
        sender: &str,
        may_push: &dyn Fn(&str) -> bool,
    ) -> Result<(Batch, LeftOut), PushError> {
        let now = Now::read();
        let batch = Batch { id: id(sender, signal, message), received_ns: now.wall_ns, ..Batch::default() };
        let mut decoding = Decoding {
            limits: &self.limits,
            names: &self.names,
            may_push,
            now,
            attribute_bytes: 0,
            room: Room::default(),
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
