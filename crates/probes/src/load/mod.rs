//! The generic loader: opens the probes' objects, shares their maps, attaches them by the best means the kernel
//! has, and reads what they send.

mod attach;
mod clock;
mod engine;
mod features;
mod loss;
mod object;
mod rings;
mod rules;
mod site;

pub use attach::{FileId, Flavour, LibraryFile};
pub use engine::{Engine, LoadError, ProgramStats, Scope, Settings, StackMode};
pub use features::{Features, TrapCost, trap_cost};
