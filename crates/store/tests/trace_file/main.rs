//! The trace file from outside: written, killed, refused, queried.

#![allow(clippy::unwrap_used)]

mod append;
mod collectives;
mod confined;
mod crash;
mod driver;
mod gpu;
mod graphs;
mod guard;
mod ingero;
mod kept;
mod kernel;
mod made;
mod marks;
mod memory;
mod merge;
mod migration;
mod owners;
mod published;
mod refusals;
mod retention;
mod sql;
mod transfer;
mod views;
mod work;
