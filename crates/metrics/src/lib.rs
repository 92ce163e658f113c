//! What a trace says as numbers that others collect. [`METRICS`] declares them once; the Prometheus page, OTLP, the
//! documentation and the check of the Grafana dashboard derive from it. [`State`] makes points of batches and is pure;
//! [`Server`] answers scrapes and [`Pusher`] sends OTLP, each in a thread of its own that the trace never waits for.

mod distribution;
mod docs;
mod file;
mod gpu;
mod ids;
mod owners;
mod points;
mod state;
mod table;

pub mod otlp;
pub mod prometheus;
pub mod push;
pub mod ranks;

pub use docs::markdown;
pub use file::{FileError, otlp_of};
pub use prometheus::{Format, PageError, Server, Shared};
pub use push::{Delivery, Pusher, Target};
pub use state::State;
pub use table::{Id, Kind, METRICS, Metric, OTHER, Unit};
