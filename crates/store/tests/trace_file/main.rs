//! The trace file from outside: written, killed, refused, queried.

#![allow(clippy::unwrap_used)]

mod append;
mod crash;
mod made;
mod refusals;
mod retention;
mod sql;
mod views;
