//! From the kernel's records to what they were about: kernels, graphs, memory, collectives, streams, copies, first
//! calls and calls that do not return. No clock and no I/O: the same batches give the same facts.

mod captures;
mod cgroups;
mod coldstart;
mod collectives;
mod copies;
mod counter;
mod graphs;
mod in_flight;
mod kernels;
mod ledger;
mod lives;
mod memory;
mod names;
mod ops;
mod pending;
mod process;
mod streams;
mod table;
#[cfg(test)]
mod testing;
mod timeline;

pub use in_flight::LONG_CALL_NS;
pub use ledger::Ledger;
