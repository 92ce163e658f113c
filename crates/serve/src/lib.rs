//! Thin projections of the query layer's table of questions: MCP for assistants, HTTP for browsers and programs, OpenAPI
//! and the documentation. What may be asked is in the table; here is who may ask, how much, and for how long.

mod answers;
mod error;
mod http;
mod mcp;
mod openapi;
mod page;
mod questions;
mod token;
mod traces;

pub use error::ServeError;
pub use gpuwhy_http::{AskError, HttpError, Kind, Tls, lines_of};
pub use http::{At, HttpOptions, serve_http};
pub use mcp::serve_stdio;
pub use openapi::openapi;
pub use page::markdown;
pub use questions::{HostEndpoint, Questions};
pub use token::Tokens;
