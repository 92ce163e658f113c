//! The server as others meet it: over a socket, on a small trace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]

mod access;
mod client;
mod hostile;
mod limits;
mod made;
mod projections;
mod snapshot;
mod sql;
