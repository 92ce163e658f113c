//! Whose processes are: on hosts made of files, and on this one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]

mod containers;
mod cri;
mod host;
mod hostile;
mod live;
mod paths;
mod pods;
