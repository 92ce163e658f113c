//! Ingest: OTLP comes in by gRPC and HTTP, is decoded within limits, is made durable in the journal, and only then acknowledged,
//! with what its cohort's threshold is. Behind that it is stored, and compared with its peers.

mod access;
mod attributes;
#[cfg(test)]
mod behind;
mod body;
mod budget;
mod comparing;
mod decode;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod http;
mod json;
mod left_out;
mod logs;
mod memory;
mod metrics;
mod names;
mod object;
mod otlp;
mod spans;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use crate::journal::{NotStored, Stored};
pub(crate) use access::{Gate, grpc_router, http_router};
pub use body::{BodyError, Packing};
pub(crate) use budget::{Budget, Taken};
pub use left_out::LeftOut;

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
use gpuwhy_cohort::shares::Tenant;
use json::JsonError;
use memory::{GivenUp, Memory};
use ring::digest::{Context, SHA256};
use std::path::Path;
use std::sync::Arc;
use writer::Writer;

/// The rows of a push may take so many times the memory of the largest request.
const DECODED: usize = 6;
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

    fn schema(self) -> &'static otlp::Schema {
        match self {
            Signal::Metrics => &otlp::METRICS,
            Signal::Logs => &otlp::LOGS,
            Signal::Traces => &otlp::SPANS,
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

impl From<JsonError> for PushError {
    fn from(error: JsonError) -> PushError {
        match error {
            JsonError::Malformed(message) => PushError::Malformed(message),
            JsonError::Full => BodyError::Full.into(),
        }
    }
}

impl PushError {
    fn of(given_up: GivenUp, limits: &Limits) -> PushError {
        match given_up {
            GivenUp::Malformed(message) => PushError::Malformed(message.into()),
            GivenUp::Full => BodyError::Full.into(),
            GivenUp::TooLarge => BodyError::TooManyRows(limits.request_bytes.saturating_mul(DECODED)).into(),
        }
    }

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
    pub(crate) sender: Tenant,
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
        let mut journal = Journal::open(data, known.clone(), stored, limits.journal_bytes, tally.clone())?;
        journal.set_shared(limits.sharing.tokens);
        let journal = Arc::new(journal);
        let writer = Writer::start(store, &journal, known, tally.clone(), keep)?;
        let comparing = Comparing::start(peers.clone(), journal.clone())?;
        Ok(Ingest {
            budget: Budget::new(limits.memory_bytes, limits.sharing.tokens),
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
        let sender = Tenant::from("");
        let taken = self.budget.none(&sender);
        self.take(Incoming { signal, format, message, sender, taken }, may_push).await
    }

    /// How far the store is behind.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        self.journal.progress()
    }

    /// Reads a body as far as is allowed.
    pub(crate) async fn read(&self, body: Body, sender: &Tenant) -> Result<(Bytes, Taken), BodyError> {
        let mut taken = self.budget.none(sender);
        let body = body::read(body, &self.limits, &mut taken).await;
        Ok((body.inspect_err(|error| self.note_full(error, sender))?, taken))
    }

    pub(crate) fn unpack(
        &self,
        packed: Bytes,
        packing: Packing,
        sender: &Tenant,
        taken: &mut Taken,
    ) -> Result<Bytes, BodyError> {
        let unpacked = body::unpack(packed, packing, &self.limits, taken);
        unpacked.inspect_err(|error| self.note_full(error, sender))
    }

    fn note_full(&self, error: &BodyError, sender: &Tenant) {
        if matches!(error, BodyError::Full) {
            self.turn_away(sender);
        }
    }

    /// What does not come from these clusters may still be on its way; others have nothing to do with it.
    fn turn_away(&self, sender: &Tenant) {
        self.tally.busy();
        self.peers.turned_away(self.names.clusters.of(sender));
    }

    /// Takes a push in; it is durable when this returns. `may_push` says of which clusters.
    pub(crate) async fn take(
        self: &Arc<Self>,
        incoming: Incoming,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        let sender = incoming.sender.clone();
        let taken = self.taken(incoming, may_push).await;
        match &taken {
            Ok(taking) => self.tally.left_out(taking.left_out.count()),
            Err(error) if error.is_for_later() => self.turn_away(&sender),
            Err(_) => self.tally.refused(),
        }
        taken
    }

    async fn taken(
        self: &Arc<Self>,
        incoming: Incoming,
        may_push: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Taking, PushError> {
        let sender = incoming.sender.clone();
        let decoded = match incoming.message.len() > LARGE {
            false => decode(&self.limits, &self.names, incoming, &may_push),
            true => {
                let me = self.clone();
                let work = move || decode(&me.limits, &me.names, incoming, &may_push);
                let failed = |_| PushError::Malformed("decoding it failed".into());
                tokio::task::spawn_blocking(work).await.map_err(failed)?
            }
        };
        let (batch, left_out, taken) = decoded?;
        let batch = Arc::new(batch);
        let stored = match batch.rows() {
            // There is nothing to lose.
            0 => Stored::Now,
            _ => self.journal.append(&batch, &sender).await?,
        };
        let advice = self.peers.advice(&batch);
        if stored == Stored::Now && batch.rows() > 0 {
            self.peers.give(batch, Now::read(), sender, taken);
        }
        Ok(Taking { stored, left_out, advice })
    }
}

/// What is still taken afterwards is what the rows take.
fn decode(
    limits: &Limits,
    names: &AllNames,
    incoming: Incoming,
    may_push: &dyn Fn(&str) -> bool,
) -> Result<(Batch, LeftOut, Taken), PushError> {
    let Incoming { signal, format, message, sender, mut taken } = incoming;
    let mut body = taken.bytes();
    let id = id(&sender, signal, &message);
    let message = match format {
        Format::Protobuf => message,
        Format::Json => {
            let mut charge = |bytes: usize| {
                body += bytes;
                taken.more(bytes)
            };
            json::of_json(signal.schema(), &message, &mut charge)?.into()
        }
    };
    let now = Now::read();
    let mut decoding = Decoding {
        limits,
        names,
        sender: &sender,
        may_push,
        now,
        memory: Memory::new(&mut taken, limits.request_bytes.saturating_mul(DECODED)),
        attribute_bytes: 0,
        room: Room::new(limits),
        batch: Batch { id, received_ns: now.wall_ns, sender: number(&sender), ..Batch::default() },
        left_out: LeftOut::default(),
    };
    let whole = wire::Message(&message);
    let decoded = match signal {
        Signal::Metrics => decoding.metrics(whole),
        Signal::Logs => decoding.logs(whole),
        Signal::Traces => decoding.spans(whole),
    };
    decoded.map_err(|given_up| PushError::of(given_up, limits))?;
    let Decoding { batch, left_out, .. } = decoding;
    drop(message);
    taken.less(body);
    Ok((batch, left_out, taken))
}

/// A sender as the store has it: the digits that it is known by.
fn number(sender: &str) -> u32 {
    u32::from_str_radix(sender, 16).unwrap_or_default()
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
