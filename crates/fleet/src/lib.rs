//! The cluster side of gpuwhy: every node pushes OTLP to it; it stores what comes before it acknowledges it, compares ranks
//! with their peers, and answers people and assistants.

pub mod api;
mod clock;
mod gently;
pub mod ingest;
pub mod journal;
mod limits;
mod log;
pub mod peers;
mod point;
mod serve;
pub mod store;
pub mod tally;
mod tokens;

pub use gpuwhy_cohort::Rates;
pub use gpuwhy_http::{HttpError, Tls};
pub use limits::Limits;
pub use point::{Batch, BatchId, Collective, Event, Found, Kind, Origin, Seen};
pub use serve::{Addresses, FleetError, Serve, serve};
pub use store::Retention;
pub use store::duck::{DuckOptions, DuckStore, SQL_WORKER, sql_worker};
pub use tokens::{Grant, Scope, Tokens};
