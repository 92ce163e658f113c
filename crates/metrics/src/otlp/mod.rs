//! Points, findings and slow calls as OTLP: metrics, logs and spans. Sums and histograms are cumulative, from the start
//! of the trace on: what is lost on the way is made good by the next that arrives.

pub(crate) mod attributes;
mod json;
mod logs;
mod metrics;
mod spans;

pub use attributes::{Resource, parse_pairs};
pub use logs::logs;
pub(crate) use metrics::request;
pub use metrics::{Histograms, metrics};
pub use spans::Spans;

use bytes::Bytes;
use gpuwhy_connect::grpc;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

/// The kinds of data OTLP has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    Metrics,
    Logs,
    Traces,
}

impl Signal {
    pub const ALL: [Signal; 3] = [Signal::Metrics, Signal::Logs, Signal::Traces];

    /// As at the end of an address: `/v1/metrics`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
            Signal::Traces => "traces",
        }
    }

    /// What is counted of it.
    pub fn items(self) -> &'static str {
        match self {
            Signal::Metrics => "points",
            Signal::Logs => "logs",
            Signal::Traces => "spans",
        }
    }

    /// The gRPC method that takes it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Signal::Metrics => grpc::METRICS,
            Signal::Logs => grpc::LOGS,
            Signal::Traces => grpc::TRACES,
        }
    }
}

/// One request to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Metrics(ExportMetricsServiceRequest),
    Logs(ExportLogsServiceRequest),
    Traces(ExportTraceServiceRequest),
}

impl Request {
    pub fn signal(&self) -> Signal {
        match self {
            Request::Metrics(_) => Signal::Metrics,
            Request::Logs(_) => Signal::Logs,
            Request::Traces(_) => Signal::Traces,
        }
    }

    /// Data points, log records or spans in it.
    pub fn items(&self) -> u64 {
        let count: usize = match self {
            Request::Metrics(request) => {
                let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
                scopes.flat_map(|scope| &scope.metrics).map(metrics::points_in).sum()
            }
            Request::Logs(request) => {
                let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
                scopes.map(|scope| scope.log_records.len()).sum()
            }
            Request::Traces(request) => {
                let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
                scopes.map(|scope| scope.spans.len()).sum()
            }
        };
        count as u64
    }

    /// As protobuf.
    pub fn encode(&self) -> Bytes {
        match self {
            Request::Metrics(request) => request.encode_to_vec(),
            Request::Logs(request) => request.encode_to_vec(),
            Request::Traces(request) => request.encode_to_vec(),
        }
        .into()
    }

    /// As one line of OTLP's JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        match self {
            Request::Metrics(request) => serde_json::to_string(request),
            Request::Logs(request) => serde_json::to_string(request),
            Request::Traces(request) => serde_json::to_string(request),
        }
    }
}
