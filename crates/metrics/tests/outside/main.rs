//! What others make of what we tell: promtool, a real Prometheus 3, OpenTelemetry's own classes, and a server that
//! behaves as badly as it is told to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]

mod collector;
mod readers;
mod sample;

mod dashboard;
mod file;
mod prometheus;
mod push;
