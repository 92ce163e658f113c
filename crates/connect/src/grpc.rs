//! gRPC over such a connection, for messages that are bytes already.

use crate::Connector;
use bytes::{Buf, BufMut, Bytes};
use std::time::Duration;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};

/// OTLP's methods.
pub const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
pub const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
pub const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Connects when it is used, and again whenever it must. `url` is what requests are for, `https` where the connector speaks TLS.
pub fn channel(url: &str, connector: Connector, timeout: Duration) -> Result<Channel, String> {
    // TLS is the connector's; the address only says so.
    let plain = match url.strip_prefix("https://") {
        Some(rest) => format!("http://{rest}"),
        None => url.to_string(),
    };
    let endpoint = Endpoint::from_shared(plain).map_err(|error| error.to_string())?;
    let origin = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let endpoint = endpoint.origin(origin).timeout(timeout).connect_timeout(timeout);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let connector = connector.clone();
        async move { connector.connect().await }
    })))
}

/// Bytes as they are.
#[derive(Debug, Clone, Copy)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
