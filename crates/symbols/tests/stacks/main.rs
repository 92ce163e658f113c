//! Stacks of real programs, built here by the C compiler, stopped where they say, and read as the agent reads them.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]

mod chain;
mod containers;
mod files;
mod hostile;
mod jit;
mod lives;
mod python;
mod support;
