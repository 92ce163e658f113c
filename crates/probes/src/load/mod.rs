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
mod stats;

pub use attach::{FileId, Flavour, LibraryFile};
pub use engine::{Engine, LoadError, Scope, Settings, StackMode};
pub use features::{EmptyProbe, Features, TrapCost, trap_cost};
pub use stats::{ProgramClock, ProgramStats};
