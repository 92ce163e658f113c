//! The page Prometheus scrapes, in the formats it may ask for, and the server that has it.

mod negotiate;
mod protobuf;
mod server;
mod text;

pub use server::{PageError, Server, Shared};

use crate::State;

/// In which a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The oldest; understood by everything. Without exemplars.
    Text,
    /// With exemplars.
    OpenMetrics,
    /// With native histograms besides the classic ones, and exemplars.
    Protobuf,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Text, Format::OpenMetrics, Format::Protobuf];

    /// What a client that says this in its `Accept` likes best.
    pub fn wanted(accept: &str) -> Format {
        negotiate::wanted(accept)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The page as it is now.
    pub fn page(self, state: &State) -> Vec<u8> {
        match self {
            Format::Text => text::page(state, false).into_bytes(),
            Format::OpenMetrics => text::page(state, true).into_bytes(),
            Format::Protobuf => protobuf::page(state),
        }
    }
}
