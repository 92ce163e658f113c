//! The node's pipeline: probes and discovery in, decoded batches through the ledger, into the store, with updates
//! for whoever watches.

mod agent;
mod annotating;
mod between;
mod callers;
mod census;
mod codes;
mod command;
mod communicators;
mod config;
mod deaths;
mod discovery;
mod ended;
mod error;
mod foresight;
mod governor;
mod host_events;
mod kernel_names;
mod known;
mod mask;
mod names;
mod naming;
mod neighbours;
mod outside;
mod overview;
mod own;
mod owners;
mod places;
mod pollers;
mod preparing;
mod probe_states;
mod pythons;
mod ranks;
mod reader;
mod reading;
mod run;
mod runtime;
mod serving;
mod shares;
mod short;
mod silent;
mod sink;
mod stacks;
mod stuck;
mod update;
mod updates;
mod wakers;

pub use agent::Agent;
pub use config::{CommandOutput, Config};
pub use error::AgentError;
pub use mask::words_masked;
pub use overview::{
    Code, CollectiveSum, Collectives, CopySum, CostSum, GpuSum, GraphSum, KernelSum, Lateness, LineSum,
    MarkSum, MemorySum, Overview, Spread, Straggling, StreamBusy, StreamWindow,
};
pub use own::{OwnCost, OwnMeter};
pub use sink::session_info;
pub use update::{Snapshot, Summary, Update};
pub use updates::Updates;
