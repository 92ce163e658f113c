//! Typed questions over a trace. [`ENDPOINTS`] lists them all; the command line, HTTP and MCP are projections of
//! it. Nothing here knows how an answer is delivered.

mod blame;
mod chosen;
mod coldstart;
mod collectives;
mod copies;
mod coverage;
mod driver;
mod endpoint;
mod error;
mod events;
mod gpu_time;
mod gpus;
mod graphs;
mod in_flight;
mod kernels;
mod memory;
mod operations;
mod processes;
pub mod render;
mod rows;
mod since;
mod sql;
mod trace;

pub use blame::{BlameBy, BlameRequest, blame};
pub use coldstart::{ColdstartRequest, coldstart};
pub use collectives::{CollectivesRequest, collectives};
pub use copies::{CopiesRequest, copies};
pub use coverage::{CoverageRequest, coverage};
pub use driver::{DriverRequest, driver};
pub use endpoint::{ENDPOINTS, Endpoint, find};
pub use error::QueryError;
pub use events::{EventsRequest, events};
pub use gpu_time::{GpuTimeRequest, gpu_time};
pub use gpus::{GpusRequest, gpus};
pub use graphs::{GraphsRequest, graphs};
pub use in_flight::{InFlightRequest, in_flight};
pub use kernels::{KernelsBy, KernelsRequest, kernels};
pub use memory::{Memory, MemoryRequest, memory};
pub use operations::{OperationsRequest, operations};
pub use processes::{ProcessesRequest, processes};
pub use rows::Rows;
pub use sql::{SqlRequest, sql};
pub use trace::{Trace, TraceRequest, trace};
