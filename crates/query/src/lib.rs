//! Typed questions over a trace. [`ENDPOINTS`] lists them all; the command line, HTTP and MCP are projections of
//! it. Nothing here knows how an answer is delivered.

mod blame;
mod coverage;
mod endpoint;
mod error;
mod events;
mod operations;
mod processes;
pub mod render;
mod rows;
mod since;
mod sql;
mod trace;

pub use blame::{BlameBy, BlameRequest, blame};
pub use coverage::{CoverageRequest, coverage};
pub use endpoint::{ENDPOINTS, Endpoint, find};
pub use error::QueryError;
pub use events::{EventsRequest, events};
pub use operations::{OperationsRequest, operations};
pub use processes::{ProcessesRequest, processes};
pub use rows::Rows;
pub use sql::{SqlRequest, sql};
pub use trace::{Trace, TraceRequest, trace};
